// A line of Python that calls views, reshapes and transposes, run on a small tensor.

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
    if (found !== wanted) refuse(found ? "" : "SyntaxError", found ? `\`${wanted}\` is missing before \`${found}\`.` : `\`${wanted}\` is missing at the end.`);
    this.at++;
    return found;
  }

  codeSince(first) {
    return this.text.slice(this.tokens[first].start, this.tokens[this.at - 1].end);
  }

  // Runs the line; `steps` gets each call with its result, also those before one that is refused.
  run() {
    const result = this.chain();
    if (this.peek()) refuse("", `\`${this.peek()}\` can't be read after \`${this.codeSince(0)}\`.`);
    return result;
  }

  chain() {
    const einops = this.peek() === "einops" && this.peek(2) === "rearrange";
    let tensor = einops || this.peek() === "rearrange" ? this.rearranged() : this.source();
    while (this.peek() === ".") {
      const first = this.at, method = this.peek(1);
      if (!KNOWN.includes(method)) refuse("", `\`.${method}\` can't be read here; these can: ${KNOWN.join(", ")}, and rearrange.`);
      this.at += 2;
      if (method !== "mT") this.take("(");
      const values = method === "mT" ? null : this.bound(method, this.values());
      tensor = this.called(tensor, method, values, this.codeSince(first));
    }
    return tensor;
  }

  called(tensor, method, values, code) {
    const result = values ? tensor[SAME[method] ?? method](...values) : tensor[method];
    this.steps.push({code, tensor: result});
    return result;
  }

  // What the first name stands for: `x`, or a projection such as `self.q_proj(x)` or `q_proj(x)`, of nothing but a name.
  source() {
    const first = this.at;
    if (!isName(this.peek())) refuse("", "It begins with the name of a tensor, such as x.");
    if (/^(torch|F|nn|np)$/.test(this.peek()) && this.peek(1) === ".") refuse("", `\`${this.peek()}.${this.peek(2)}\` can't be read here: write it as a method, such as x.transpose(1, 2).`);
    this.at++;
    while (this.peek() === "." && isName(this.peek(1)) && !KNOWN.includes(this.peek(1))) {
      if (this.peek(2) === "(" && !this.readsTensor(this.at + 2)) break;
      this.at += 2;
    }
    if (this.peek() === "(" && this.readsTensor(this.at)) {
      const call = this.codeSince(first), isPlain = isName(this.peek(1)) && this.peek(2) === ")";
      if (!call.startsWith("self.") && (!isPlain || call.startsWith("x."))) refuse("", `\`${call}(…)\` can't be read here: it may change the numbers or the shape.`);
      this.at = this.closing(this.at) + 1;
    }
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

  rearranged() {
    this.at += this.peek() === "einops" ? 3 : 1;
    this.take("(");
    const tensor = this.chain();
    this.take(",");
    const first = this.at, pattern = this.take();
    if (!/^["']/.test(pattern)) refuse("", "the pattern needs quotation marks, as in \"b t (h d) -> b h t d\".");
    if (this.peek() === ",") this.at++;
    const {positional, named} = this.values();
    if (positional.length) refuse("TypeError", "only sizes with names may follow the pattern, such as h=2.");
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
      if (this.peek() !== ")") this.take(this.peek() ? "," : ")");
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
    return Number.isInteger(value) ? value : refuse("TypeError", "a tuple is not a number.");
  }

  factor() {
    if (this.peek() === "-") return this.at++, 0 - this.number(this.factor());
    if (/^\d/.test(this.peek())) return Number(this.take());
    if (this.peek() === "(" || this.peek() === "[") return this.list(this.take() === "[");
    if (isName(this.peek())) return this.size();
    return refuse(this.peek() ? "" : "SyntaxError", this.peek() ? `\`${this.peek()}\` can't be read here; the known names are ${Object.keys(this.names).join(", ")}.` : "`)` is missing at the end.");
  }

  list(square) {
    const values = [], end = square ? "]" : ")";
    let isList = square;
    while (this.peek() !== end) {
      values.push(this.sum());
      if (this.peek() === end) break;
      this.take(this.peek() ? "," : end);
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
    return this.names[name] ?? refuse("", `\`${name}\` is unknown here; the known names are ${Object.keys(this.names).join(", ")}.`);
  }
}
