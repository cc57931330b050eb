// A tensor as PyTorch keeps it, and the line of code that reshapes it: slots of memory, and the sizes and strides that read them.

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
    return refuse("RuntimeError", `a view moves no number, and with the strides ${tuple(this.strides)} no steps of one length lead `
      + `through ${tuple(shape)}. \`reshape\` copies where \`view\` can't.`);
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
    if (first > last) refuse("RuntimeError", `axis ${first} comes after axis ${last}: the first axis to join stands first.`);
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
    return this.shape.length > 1 ? this.transpose(-2, -1) : refuse("RuntimeError", "mT needs two axes or more.");
  }

  // As einops: reshape, permute, reshape, each only where the pattern asks for it.
  rearrange(pattern, given) {
    const sides = pattern.split("->").map(groups), wrong = reason => refuse("EinopsError", reason);
    if (sides.length !== 2) wrong("the pattern needs one arrow, as in \"b t (h d) -> b h t d\".");
    const [left, right] = sides, [axes, order] = sides.map(side => side.flat());
    for (const names of [axes, order]) if (new Set(names).size < names.length) wrong("a name stands twice on one side.");
    const alone = [...axes, ...order].find(name => axes.includes(name) !== order.includes(name));
    if (alone) wrong(`${alone} stands on one side only.`);
    const unknown = Object.keys(given).find(name => !axes.includes(name));
    if (unknown) wrong(`${unknown} is not in the pattern.`);
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
  if (negative !== undefined) refuse("RuntimeError", `${negative} is no size.`);
  if (sizes.filter(size => size === -1).length > 1) refuse("RuntimeError", "only one size may be -1: two can't both be inferred.");
  const fits = sizes.includes(-1) ? known > 0 && count % known === 0 : known === count;
  if (!fits) refuse("RuntimeError", `${count} numbers don't fit into ${tuple(sizes)}.`);
  return sizes.map(size => size === -1 ? count / known : size);
}

// "b t (h d)" as [["b"], ["t"], ["h", "d"]]; a 1 is a group without names.
function groups(side) {
  const rest = side.replace(/\(([^()]*)\)|([a-z_]\w*|1)|\s+/gi, "");
  if (rest) refuse(/^[.…]+$/.test(rest) ? "" : "EinopsError", `${rest} can't be read in the pattern.`);
  return [...side.matchAll(/\(([^()]*)\)|([a-z_]\w*|1)/gi)].map(([, group, name]) => (group ?? name).match(/[a-z_]\w*/gi) ?? []);
}

// --- a line of code ---

// The parameters of each call: one with a star takes whole numbers or one tuple of them; one with a question mark may be left out.
const METHODS = {
  view: ["*size"], reshape: ["*shape"], permute: ["*dims"], contiguous: [], flatten: ["?start_dim", "?end_dim"],
  unflatten: ["dim", "sizes"], transpose: ["dim0", "dim1"], swapaxes: ["axis0", "axis1"], swapdims: ["dim0", "dim1"],
  movedim: ["source", "destination"], moveaxis: ["source", "destination"],
};
const SAME = {swapaxes: "transpose", swapdims: "transpose", moveaxis: "movedim"};
const TUPLES = ["size", "shape", "dims", "sizes"], EITHER = ["source", "destination"];
const KNOWN = [...Object.keys(METHODS), "mT"];
const isName = text => /^[A-Za-z_]\w*$/.test(text);

class Line {
  constructor(text, tensor, names) {
    this.text = text.replace(/#.*/, "").trim().replace(/^return\b\s*|^[A-Za-z_]\w*\s*=(?!=)\s*/, "");
    Object.assign(this, {tensor, names, at: 0, steps: []});  // names: the sizes that a name stands for
    this.tokens = [...this.text.matchAll(/(\d+|[A-Za-z_]\w*|"[^"]*"|'[^']*'|\/\/|\S)/g)]
      .map(match => ({text: match[0], start: match.index, end: match.index + match[0].length}));
  }

  peek(ahead = 0) {
    return this.tokens[this.at + ahead]?.text ?? "";
  }

  take(wanted = this.peek()) {
    const found = this.peek();
    if (found !== wanted) refuse("SyntaxError", found ? `\`${wanted}\` is missing before \`${found}\`.` : `\`${wanted}\` is missing at the end.`);
    this.at++;
    return found;
  }

  codeSince(first) {
    return this.text.slice(this.tokens[first].start, this.tokens[this.at - 1].end);
  }

  // Runs the line; `steps` gets each call with its result, also those before one that is refused.
  run() {
    const result = this.chain();
    if (this.peek()) refuse(this.peek() === "[" ? "" : "SyntaxError", `\`${this.peek()}\` can't be read after \`${this.codeSince(0)}\`.`);
    return result;
  }

  chain() {
    let tensor;
    const name = this.peek(1) === "." && this.peek(3) === "(" ? `${this.peek()}.${this.peek(2)}` : "";
    if (this.peek() === "rearrange" || name === "einops.rearrange") tensor = this.rearranged();
    else if (name.startsWith("torch.") && this.peek(2) in METHODS) tensor = this.applied();
    else tensor = this.source();
    while (this.peek() === ".") {
      const first = this.at, method = this.peek(1);
      if (!KNOWN.includes(method)) refuse("", `\`.${method}\` can't be read here; what can: ${KNOWN.join(", ")}, and rearrange.`);
      this.at += 2;
      if (method !== "mT") this.take("(");
      const values = method === "mT" ? null : this.bound(method, this.values());
      tensor = this.called(tensor, method, values, this.codeSince(first));
    }
    return tensor;
  }

  called(tensor, method, values, code) {
    this.failing = code;
    const result = values ? tensor[SAME[method] ?? method](...values) : tensor[method];
    this.steps.push({code, tensor: result});
    return result;
  }

  // What the first name stands for: `x`, or a call such as `self.q_proj(x)`.
  source() {
    const first = this.at;
    if (!isName(this.peek())) refuse("SyntaxError", "a line begins with the name of a tensor, such as x.");
    this.at++;
    while (this.peek() === "." && isName(this.peek(1)) && !KNOWN.includes(this.peek(1))) {
      if (this.peek(2) === "(" && !this.readsTensor(this.at + 2)) break;
      this.at += 2;
    }
    if (this.peek() === "(" && this.readsTensor(this.at)) this.at = this.closing(this.at) + 1;
    this.steps.push({code: this.codeSince(first), tensor: this.tensor});
    return this.tensor;
  }

  closing(open) {
    let depth = 0;
    for (let at = open; at < this.tokens.length; at++) {
      depth += {"(": 1, ")": -1}[this.tokens[at].text] ?? 0;
      if (!depth) return at;
    }
    return refuse("SyntaxError", "`)` is missing at the end.");
  }

  readsTensor(open) {
    return this.tokens.slice(open, this.closing(open)).some(({text}) => isName(text) && text !== "self" && !(text in this.names));
  }

  applied() {  // torch.transpose(x, 1, 2)
    const method = this.peek(2);
    if (["view", "contiguous"].includes(method)) refuse("AttributeError", `there is no torch.${method}: write x.${method}(…).`);
    this.at += 4;
    const tensor = this.chain(), first = this.at;
    if (this.peek() === ",") this.at++;
    return this.called(tensor, method, this.bound(method, this.values()), `torch.${method}(…${this.codeSince(first)}`);
  }

  rearranged() {
    this.at += this.peek() === "einops" ? 3 : 1;
    this.take("(");
    const tensor = this.chain();
    this.take(",");
    const first = this.at, pattern = this.take();
    if (!/^["']/.test(pattern)) refuse("", "the pattern stands in quotation marks, as in \"b t (h d) -> b h t d\".");
    if (this.peek() === ",") this.at++;
    const {positional, named} = this.values();
    if (positional.length) refuse("TypeError", "after the pattern come sizes with names, such as h=2.");
    return this.called(tensor, "rearrange", [pattern.slice(1, -1), named], `rearrange(…, ${this.codeSince(first)}`);
  }

  // The arguments up to the closing parenthesis.
  values() {
    const positional = [], named = {};
    while (this.peek() !== ")") {
      if (isName(this.peek()) && this.peek(1) === "=") {
        const name = this.take();
        this.at++;
        named[name] = this.sum();
      } else positional.push(this.sum());
      if (this.peek() !== ")") this.take(",");
    }
    this.at++;
    return {positional, named};
  }

  bound(method, {positional, named}) {
    const parameters = METHODS[method].map(name => name.replace(/\W/, "")), wrong = reason => refuse("TypeError", `\`${method}\` ${reason}`);
    const several = METHODS[method][0]?.startsWith("*") && positional.length && !Array.isArray(positional[0]);
    const values = several ? [positional] : [...positional];
    if (values.length > parameters.length) wrong(`takes ${parameters.length ? parameters.join(" and ") : "nothing"}.`);
    for (const [name, value] of Object.entries(named)) {
      const at = parameters.indexOf(name);
      if (at < 0 || values[at] !== undefined) wrong(`can't be given ${name}.`);
      values[at] = value;
    }
    parameters.forEach((name, i) => {
      const value = values[i], whole = Array.isArray(value) ? value.every(Number.isInteger) : Number.isInteger(value);
      if (value === undefined && METHODS[method][i].startsWith("?")) return;
      if (value === undefined) wrong(`needs ${name}.`);
      if (!whole || (!EITHER.includes(name) && TUPLES.includes(name) !== Array.isArray(value))) wrong(`needs ${TUPLES.includes(name) ? "a tuple of whole numbers" : "a whole number"} as ${name}.`);
    });
    return several || TUPLES.includes(parameters[0]) ? values[0] : values;
  }

  // --- a size, such as 2, -1, d_out // num_heads, x.shape[1], or a tuple of sizes ---

  sum() {
    let value = this.term();
    while ("+-".includes(this.peek() || " ")) {
      const sign = this.take() === "+" ? 1 : -1;
      value = this.number(value) + sign * this.number(this.term());
    }
    return value;
  }

  term() {
    let value = this.factor();
    while (["*", "/", "//"].includes(this.peek())) {
      const operator = this.take(), [one, other] = [this.number(value), this.number(this.factor())];
      if (operator === "/") refuse("TypeError", "`/` makes a float, and sizes are whole numbers: write `//`.");
      if (operator === "//" && other === 0) refuse("ZeroDivisionError", "division by zero.");
      value = operator === "*" ? one * other : Math.floor(one / other);
    }
    return value;
  }

  number(value) {
    return Number.isInteger(value) ? value : refuse("TypeError", "a tuple is no number.");
  }

  factor() {
    if (this.peek() === "-") return this.at++, 0 - this.number(this.factor());
    if (/^\d/.test(this.peek())) return Number(this.take());
    if (this.peek() === "(" || this.peek() === "[") return this.list(this.take() === "[");
    if (isName(this.peek())) return this.size();
    return refuse("SyntaxError", this.peek() ? `\`${this.peek()}\` can't be read here.` : "`)` is missing at the end.");
  }

  list(square) {
    const values = [], end = square ? "]" : ")";
    let isList = square;
    while (this.peek() !== end) {
      values.push(this.sum());
      if (this.peek() === end) break;
      this.take(",");
      isList = true;
    }
    this.take(end);
    return isList || !values.length ? values : values[0];
  }

  size() {
    let name = this.take();
    for (; this.peek() === "." && isName(this.peek(1)); this.at += 2) name = this.peek(1);
    const end = {shape: "]", size: ")"}[name];
    if (end && (this.peek() === "[" || this.peek() === "(")) {
      this.at++;
      const axis = this.tensor.axis(this.number(this.sum()));
      this.take(end);
      return this.tensor.shape[axis];
    }
    return this.names[name] ?? refuse("", `\`${name}\` is unknown here; known are ${Object.keys(this.names).join(", ")}.`);
  }
}
