// Attention and a weight matrix under the roof of a machine: two limits, and what moves a point between them.

const {heads, headDim, sliders: values, first} = data, width = heads * headDim;
const LEFT = -1, TOP = 17, DECADES = 7;  // powers of ten: operations per byte at the left edge, operations per second at the top
const SQUARE = {background: "var(--link)", borderRadius: 0, width: "1.1rem", height: "1.1rem", margin: "-.55rem"};
const PHASES = ["decode", "prefill"];
const SAYS = {  // what attention and the matrix wait for
  "decode memory memory": "Both wait for memory: attention does {attention} for each byte and the matrix {matrix}, where this machine could do {balance}.",
  "decode memory compute": "{batch} texts share one reading of the matrix and keep the arithmetic busy, but each brings a cache of its own, and so attention still waits for memory.",
  "decode compute memory": "So many query heads share each key that attention waits for arithmetic, but a batch of {batch} makes too little use of the matrix, which waits for memory.",
  "decode compute compute": "Both wait for arithmetic, because many query heads share each key, and {batch} texts share one reading of the matrix.",
  "prefill memory memory": "Both wait for memory, although all tokens are read at once: attention does {attention} for each byte and the matrix {matrix}, where this machine could do {balance}.",
  "prefill memory compute": "All tokens of the batch share one reading of the matrix, but a key is shared by those of its own text alone, and so attention waits for memory.",
  "prefill compute memory": "Each key meets all {tokens} queries of its text and keeps the arithmetic busy, but the matrix does only {matrix} operations for each byte and waits for memory.",
  "prefill compute compute": "Both wait for arithmetic, because all tokens are read at once: each key meets all queries of its text, and the matrix all tokens of the batch.",
  table: "The two products are the same as before, but the table of scores is written and read back, and so attention waits for memory.",
};
const state = {...first, phase: 0, table: 0};

// As `attention_work` and `matrix_work` in roofline.py.
function attentionWork(batch, queryLen, keyLen, kvHeads, bits, tableMoves) {
  const pairs = heads * queryLen * keyLen, numbers = 2 * (heads * queryLen + kvHeads * keyLen) * headDim + (tableMoves ? 4 * pairs : 0);
  return work(batch * 4 * pairs * headDim, batch * numbers * bits / 8);
}
function matrixWork(batch, queryLen, bits) {
  const tokens = batch * queryLen;
  return work(2 * tokens * width ** 2, (width ** 2 + 2 * tokens * width) * bits / 8);
}
const work = (operations, moved) => ({operations, moved, intensity: operations / moved});
const balance = () => state.flops / state.speed;
const boundBy = ({intensity}) => intensity < balance() ? "memory" : "compute";
const bestSeconds = ({operations, moved}) => Math.max(operations / state.flops, moved / state.speed);

const asGiven = name => state[name] === first[name] ? " (H100)" : "";
const WORDS = {
  batch: count => `${count} text${count > 1 ? "s" : ""}`,
  tokens: count => `${count.toLocaleString("en")} in each ${state.phase ? "text" : "cache"}`,
  kvHeads: count => `${count} for ${heads} heads`,
  bits: count => `${count} a number`,
  flops: rate => `${three(rate / 1e12)} trillion/s${asGiven("flops")}`,
  speed: rate => `${three(rate / 1e9)} GB/s${asGiven("speed")}`,
};
const NAMES = {batch: "Batch", tokens: "Tokens", kvHeads: "KV heads", bits: "Bits", flops: "Arithmetic", speed: "Memory"};
const sliders = Object.entries(NAMES).map(([name, title]) => new Slider(title, values[name].length - 1, number => set({[name]: values[name][number]})));
const phases = new Choice("Computed at once", ["one new token of each text (decode)", "all tokens of each text (prefill)"], phase => set({phase}));
const tables = new Choice("Table of scores", ["stays on the chip", "is written and read"], table => set({table}));
const said = new Sentence(Object.values(SAYS)), facts = make("dl", {className: "facts"});
const plane = styled(make("div", {className: "curve"}), {height: "11rem", margin: "1rem 0 1.6rem"});
plane.setAttribute("role", "img");

const across = intensity => 100 * (Math.log10(intensity) - LEFT) / DECADES;  // percent from the left
const down = rate => 100 * (TOP - Math.log10(rate)) / DECADES;  // percent from the top

function draw(works) {
  const {flops, speed} = state, bend = across(balance()), high = down(flops);
  const lines = [...Array(DECADES + 1).keys()].map(decade => 100 * decade / DECADES);
  const write = (text, style) => styled(make("span", {className: "note", textContent: text}), {position: "absolute", padding: "0 .3rem", whiteSpace: "nowrap", ...style});
  plane.innerHTML = `<svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true" style="height:100%"><rect width="${bend}" height="100" fill="var(--plain)"/>`
    + `<path d="${lines.map(line => `M${line} 0V100M0 ${line}H100`).join("")}"/><path class="line" d="M0 ${down(speed * 10 ** LEFT)}L${bend} ${high}H100"/></svg>`;
  plane.append(write("memory-bound", {top: 0, right: `${100 - bend}%`}), write("compute-bound", {top: 0, left: `${bend}%`}),
    write(`${three(flops / 1e12)} trillion/s`, {right: 0, bottom: `calc(${100 - high}% + .4rem)`}), write(`balance ${three(balance())}`, {bottom: 0, left: `${bend}%`}),
    ...["0.1", "1", "10", "100", "1k", "10k", "100k", "1M"].map((text, i) =>
      write(text, {top: "100%", left: `${lines[i]}%`, padding: 0, transform: `translateX(-${i ? i < DECADES ? 50 : 100 : 0}%)`})),
    ...[SQUARE, {}].map((style, i) => styled(make("i"), {left: `${across(works[i].intensity)}%`, top: `${down(Math.min(flops, works[i].intensity * speed))}%`, ...style})));
}

function sentence(attention, matrix, onChip) {
  const shown = {batch: state.batch, tokens: state.tokens.toLocaleString("en"), matrix: three(matrix.intensity), balance: three(balance())};
  shown.attention = `${three(attention.intensity)} operation${three(attention.intensity) === "1" ? "" : "s"}`;
  const says = boundBy(attention) === boundBy(onChip) ? `${PHASES[state.phase]} ${boundBy(attention)} ${boundBy(matrix)}` : "table";
  return SAYS[says].replace(/{(\w+)}/g, (_, name) => shown[name]);
}

function show() {
  const {batch, phase, tokens, kvHeads, bits, table} = state, queries = phase ? tokens : 1;
  const [attention, onChip] = [table, 0].map(moves => attentionWork(batch, queries, tokens, kvHeads, bits, moves)), matrix = matrixWork(batch, queries, bits);
  const rows = [["● Attention", attention], ["■ Matrix", matrix]].map(([name, one]) =>
    [name, `${inUnits(one.operations, ["", "thousand", "million", "billion", "trillion"])} operations / ${inUnits(one.moved, ["bytes", "kB", "MB", "GB", "TB"])} = ${three(one.intensity)} per byte: `
      + `${boundBy(one)}-bound, ${inUnits(1e9 * bestSeconds(one), ["ns", "µs", "ms", "s"])} at best`]);
  draw([matrix, attention]);
  facts.replaceChildren(...rows.flatMap(([name, text]) => [make("dt", {textContent: name}), make("dd", {textContent: text})]));
  plane.ariaLabel = `Operations per second against operations per byte. ${rows.map(([name, text]) => `${name.slice(2)}: ${text}.`).join(" ")} The two limits meet at ${three(balance())} per byte.`;
  Object.keys(NAMES).forEach((name, i) => sliders[i].set(values[name].indexOf(state[name]), WORDS[name](state[name])));
  phases.press(phase);
  tables.press(table);
  said.say(sentence(attention, matrix, onChip));
  address.set([phase, table, ...Object.keys(NAMES).map(name => values[name].indexOf(state[name]))].join(","));
}

function set(change) {
  Object.assign(state, change);
  show();
}

const note = make("p", {className: "note", textContent: `Operations per byte; upwards, operations per second at best. The matrix has ${width.toLocaleString("en")} rows and columns. Fewer bits are taken to compute as fast.`});
begin(styled(make("div", {}, phases.element, tables.element), {display: "flex", flexWrap: "wrap", gap: "0 1.5rem"}), said.element,
  make("div", {className: "beside"}, make("div", {}, plane, note, facts), make("div", {className: "sliders"}, ...sliders.map(slider => slider.element))));
address.follow(() => {
  const [phase, table, ...numbers] = address.get().split(",").map(Number);
  const given = Object.keys(NAMES).map((name, i) => [name, values[name][numbers[i]] ?? first[name]]);
  set({...Object.fromEntries(given), phase: phase === 1 ? 1 : 0, table: table === 1 ? 1 : 0});
});
