// A tensor as PyTorch keeps it: slots of memory, and the shape, strides and offset that read them.

class Refusal extends Error {
  constructor(kind, reason) {
    super(reason);
    this.kind = kind;  // the exception that Python would raise; "" if only this page can't read the line
  }
}
const refuse = (kind, reason) => { throw new Refusal(kind, reason); };
const product = sizes => sizes.reduce((a, b) => a * b, 1);
const range = count => [...Array(count).keys()];
const tuple = sizes => `(${sizes.join(", ")}${sizes.length === 1 ? "," : ""})`;
const same = (some, others) => some.length === others.length && some.every((one, i) => one === others[i]);

class Strided {
  constructor(shape, strides, memory, offset = 0) {
    Object.assign(this, {shape, strides, memory, offset});  // memory: what lies in each slot
  }

  static contiguous(shape, memory) {
    return new Strided(shape, shape.map((_, axis) => product(shape.slice(axis + 1))), memory);
  }

  get elements() {  // in reading order
    let slots = [this.offset];
    this.shape.forEach((size, axis) => {
      slots = slots.flatMap(slot => range(size).map(i => slot + i * this.strides[axis]));
    });
    return slots.map(slot => this.memory[slot]);
  }

  get isContiguous() {
    let next = 1;
    return range(this.shape.length).reverse().every(axis => {
      const fits = this.shape[axis] === 1 || this.strides[axis] === next;
      next *= this.shape[axis];
      return fits;
    });
  }

  // The strides of another shape over the same slots, or null where no strides lead through them in this order.
  stridesFor(shape) {
    const strides = Array(shape.length);
    let to = shape.length - 1, old = 1, fresh = 1, base = this.strides.at(-1);
    for (let from = this.shape.length - 1; from >= 0; from--) {
      old *= this.shape[from];
      if (from && (this.shape[from - 1] === 1 || this.strides[from - 1] === old * base)) continue;
      for (; to >= 0 && (fresh < old || shape[to] === 1); to--) {
        strides[to] = fresh * base;
        fresh *= shape[to];
      }
      if (fresh !== old) return null;
      if (from) [base, old, fresh] = [this.strides[from - 1], 1, 1];
    }
    return to < 0 ? strides : null;
  }

  axis(i) {
    const count = this.shape.length;
    if (i < -count || i >= count) refuse("IndexError", `there is no axis ${i}: ${tuple(this.shape)} has the axes 0 to ${count - 1}.`);
    return i < 0 ? i + count : i;
  }

  contiguous() {
    return this.isContiguous ? this : Strided.contiguous(this.shape, this.elements);
  }

  view(...sizes) {
    const shape = filledIn(sizes, product(this.shape)), strides = this.stridesFor(shape);
    if (strides) return new Strided(shape, strides, this.memory, this.offset);
    return refuse("RuntimeError", `\`view\` moves no number, and no strides lead through this memory in the order that `
      + `\`${tuple(shape)}\` asks for. \`reshape\` copies the numbers instead.`);
  }

  reshape(...sizes) {
    const shape = filledIn(sizes, product(this.shape));
    return this.stridesFor(shape) ? this.view(...shape) : Strided.contiguous(shape, this.elements);
  }

  permute(...axes) {
    const count = this.shape.length, seen = [];
    if (axes.length !== count) refuse("RuntimeError", `${tuple(this.shape)} has ${count} axes, and the order lists ${axes.length}.`);
    for (const i of axes) {
      const axis = this.axis(i);
      if (seen.includes(axis)) refuse("RuntimeError", `axis ${axis} is listed twice.`);
      seen.push(axis);
    }
    return new Strided(seen.map(axis => this.shape[axis]), seen.map(axis => this.strides[axis]), this.memory, this.offset);
  }

  transpose(first, second) {
    const order = range(this.shape.length), [a, b] = [this.axis(first), this.axis(second)];
    [order[a], order[b]] = [b, a];
    return this.permute(...order);
  }

  movedim(source, destination) {
    if (Array.isArray(source) !== Array.isArray(destination)) refuse("TypeError", "both must be numbers, or both tuples.");
    const [from, to] = [[source].flat(), [destination].flat()];
    if (from.length !== to.length) refuse("RuntimeError", `${from.length} axes can't move to ${to.length} places.`);
    const [axes, places] = [from, to].map(list => list.map(i => this.axis(i)));
    if ([axes, places].some(list => new Set(list).size < list.length)) refuse("RuntimeError", "an axis is listed twice.");
    const others = range(this.shape.length).filter(axis => !axes.includes(axis));
    return this.permute(...range(this.shape.length).map(i => places.includes(i) ? axes[places.indexOf(i)] : others.shift()));
  }

  flatten(start = 0, end = -1) {
    const [first, last] = [this.axis(start), this.axis(end)];
    if (first > last) refuse("RuntimeError", `axis ${first} comes after axis ${last}: name the earlier axis first.`);
    if (first === last) return this;
    const joined = product(this.shape.slice(first, last + 1));
    return this.reshape(...this.shape.slice(0, first), joined, ...this.shape.slice(last + 1));
  }

  unflatten(dim, sizes) {
    const axis = this.axis(dim);
    if (!sizes.length) refuse("RuntimeError", "the sizes are missing.");
    return this.view(...this.shape.slice(0, axis), ...filledIn(sizes, this.shape[axis]), ...this.shape.slice(axis + 1));
  }

  get mT() {
    return this.shape.length > 1 ? this.transpose(-2, -1) : refuse("RuntimeError", "`mT` needs two axes or more.");
  }

  // As einops: reshape, permute, reshape, each only where the pattern asks for it.
  rearrange(pattern, given) {
    const sides = pattern.split("->").map(groups), wrong = reason => refuse("EinopsError", reason);
    if (sides.length !== 2) wrong("the pattern needs one arrow, as in \"b t (h d) -> b h t d\".");
    const [left, right] = sides, [axes, order] = sides.map(side => side.flat());
    for (const names of [axes, order]) if (new Set(names).size < names.length) wrong("a name appears twice on one side.");
    const alone = [...axes, ...order].find(name => axes.includes(name) !== order.includes(name));
    if (alone) wrong(`\`${alone}\` appears on one side only.`);
    const unknown = Object.keys(given).find(name => !axes.includes(name));
    if (unknown) wrong(`\`${unknown}\` is not in the pattern.`);
    if (left.length !== this.shape.length) wrong(`the pattern has ${left.length} axes, and ${tuple(this.shape)} has ${this.shape.length}.`);
    const sizes = {...given};
    left.forEach((group, i) => {
      const open = group.filter(name => !(name in given)), known = product(group.map(name => given[name] ?? 1)), size = this.shape[i];
      if (open.length > 1) wrong(`the sizes of ${open.join(" and ")} can't both be inferred: give one of them.`);
      if (open.length ? size % known || known < 1 : size !== known) wrong(`axis ${i} has ${size} numbers, which (${group.join(" ")}) can't share.`);
      if (open.length) sizes[open[0]] = size / known;
    });
    let result = left.some(group => group.length !== 1) ? this.reshape(...axes.map(name => sizes[name])) : this;
    if (!same(axes, order)) result = result.permute(...order.map(name => axes.indexOf(name)));
    return right.some(group => group.length !== 1) ? result.reshape(...right.map(group => product(group.map(name => sizes[name])))) : result;
  }
}

// The sizes of a shape, with -1 filled in.
function filledIn(sizes, count) {
  const negative = sizes.find(size => size < -1), known = product(sizes.filter(size => size !== -1));
  if (negative !== undefined) refuse("RuntimeError", `${negative} is not a size.`);
  if (sizes.filter(size => size === -1).length > 1) refuse("RuntimeError", "only one size may be -1: two can't both be inferred.");
  const fits = sizes.includes(-1) ? known > 0 && count % known === 0 : known === count;
  if (!fits) refuse("RuntimeError", `${count} numbers don't fit into ${tuple(sizes)}.`);
  return sizes.map(size => size === -1 ? count / known : size);
}

// "b t (h d)" as [["b"], ["t"], ["h", "d"]]; a 1 is a group without names.
function groups(side) {
  const rest = side.replace(/\(([^()]*)\)|([a-z_]\w*|1)|\s+/gi, "");
  if (rest) refuse(/^[.…]+$/.test(rest) ? "" : "EinopsError", `\`${rest}\` can't be read in the pattern.`);
  return [...side.matchAll(/\(([^()]*)\)|([a-z_]\w*|1)/gi)].map(([, group, name]) => (group ?? name).match(/[a-z_]\w*/gi) ?? []);
}
