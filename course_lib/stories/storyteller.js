"use strict";
// A storyteller: it reads words and scores the next one, as the course's Storyteller does, and reads the facts of a text.
const storyteller = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const model = withNumbers(data.model, halves(document.getElementById("weights").textContent));

  // --- arithmetic ---

  // Numbers of half precision, two in five characters: digits of base 85 from "!" on, with "v" in the place of "<".
  function halves(text) {
    const numbers = new Float32Array(text.length / 5 * 2);
    const half = bits => {
      const exponent = bits >> 10 & 31, fraction = (bits & 1023) / 1024;
      return (exponent ? (1 + fraction) * 2 ** (exponent - 15) : fraction * 2 ** -14) * (bits >> 15 ? -1 : 1);
    };
    for (let i = 0; i < numbers.length; i += 2) {
      let pair = 0;
      for (let j = i / 2 * 5; j < i / 2 * 5 + 5; j++) pair = 85 * pair + (text[j] === "v" ? 27 : text.charCodeAt(j) - 33);
      numbers[i] = half(Math.floor(pair / 65536));
      numbers[i + 1] = half(pair % 65536);
    }
    return numbers;
  }
  // The same data with the numbers that {from, to} stands for.
  function withNumbers(part, numbers) {
    if (part === null || typeof part !== "object") return part;
    if ("from" in part) return numbers.subarray(part.from, part.to);
    if (Array.isArray(part)) return part.map(each => withNumbers(each, numbers));
    return Object.fromEntries(Object.entries(part).map(([name, each]) => [name, withNumbers(each, numbers)]));
  }
  function linear({weight, bias}, x) {
    const y = new Float64Array(weight.length / x.length);
    for (let row = 0, at = 0; row < y.length; row++) {
      let sum = bias ? bias[row] : 0;
      for (let column = 0; column < x.length; column++) sum += weight[at++] * x[column];
      y[row] = sum;
    }
    return y;
  }
  const plus = (x, y) => x.map((value, i) => value + y[i]);
  const mean = x => x.reduce((sum, value) => sum + value, 0) / x.length;
  function normed({weight, bias, eps, centred}, x) {
    const middle = centred ? mean(x) : 0;
    const size = Math.sqrt(mean(x.map(value => (value - middle) ** 2)) + eps);
    return x.map((value, i) => (value - middle) / size * weight[i] + (bias ? bias[i] : 0));
  }
  function softmax(scores) {
    const largest = Math.max(...scores), found = scores.map(score => Math.exp(score - largest));
    const sum = found.reduce((a, b) => a + b, 0);
    return found.map(value => value / sum);
  }
  // x times the probability that a normally distributed number is below x; the series has positive terms alone.
  function gelu(x) {
    if (Math.abs(x) > 8) return Math.max(x, 0);
    let term = x, sum = x;
    for (let n = 3; Math.abs(term) > 1e-17 * Math.abs(sum); n += 2) sum += term *= x * x / n;
    return x * (0.5 + sum * Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI));
  }
  // Rotates the last numbers of each head, the first half of them together with the second.
  function rotated(x, heads, rates, position) {
    const width = x.length / heads, half = rates.length;
    for (let end = width; end <= x.length; end += width) {
      rates.forEach((rate, i) => {
        const angle = Math.fround(position * rate), cos = Math.cos(angle), sin = Math.sin(angle);
        const a = end - 2 * half + i, b = end - half + i, first = x[a], second = x[b];
        x[a] = first * cos - second * sin;
        x[b] = second * cos + first * sin;
      });
    }
    return x;
  }
  // The output for one token, after those whose keys and values are in the cache, and the weights of each head.
  function attention({queries, keys, values, output, latent, heads, kv_heads, rates, window, sinks}, x, cache) {
    const position = cache.keys.length, source = latent ? linear(latent, x) : x;
    if (latent) source.set(normed(latent.norm, source.subarray(0, latent.norm.weight.length)));
    const query = rotated(linear(queries, x), heads, rates, position);
    cache.keys.push(rotated(linear(keys, source), kv_heads, rates, position));
    cache.values.push(linear(values, source));
    const width = query.length / heads, value_width = cache.values[0].length / kv_heads;
    const context = new Float64Array(heads * value_width), weights = [];
    for (let head = 0; head < heads; head++) {
      const shared = Math.floor(head * kv_heads / heads);  // consecutive heads share keys and values
      weights.push(softmax(cache.keys.map((key, at) => {
        if (window !== null && at <= position - window && at >= sinks) return -Infinity;
        let score = 0;
        for (let i = 0; i < width; i++) score += query[head * width + i] * key[shared * width + i];
        return score / Math.sqrt(width);
      })));
      weights[head].forEach((weight, at) => {
        for (let i = 0; i < value_width; i++) context[head * value_width + i] += weight * cache.values[at][shared * value_width + i];
      });
    }
    return [output ? linear(output, context) : context, weights];
  }
  const newCaches = () => model.blocks.map(() => ({keys: [], values: []}));
  // Reads one token more: the logits of the next one, and the weights, (layer, head, token).
  function read(token, caches) {
    const width = model.norm.weight.length;
    const row = (table, number) => Float64Array.from(table.subarray(number * width, (number + 1) * width));
    let x = row(model.words, token).map(value => value * model.word_scale);
    if (model.positions) x = plus(x, row(model.positions, caches[0].keys.length));
    const looks = model.blocks.map((block, layer) => {
      const [found, weights] = attention(block.attention, normed(block.attention_norm, x), caches[layer]);
      x = plus(x, found);
      x = plus(x, linear(block.down, linear(block.up, normed(block.mlp_norm, x)).map(gelu)));
      return weights;
    });
    return {logits: linear({weight: model.words}, normed(model.norm, x)), looks};
  }

  // --- words and facts, as the Python modules `language` and `kept` have them ---

  const wordsOf = text => text.match(new RegExp(data.token, "g")) || [];
  // Each word as it is written, with the space before it.
  function spaced(words) {
    let quoted = false, text = "";
    return words.map(word => {
      const opens = word === '"' && !quoted;
      if (word === '"') quoted = !quoted;
      const attached = ".,!?:".includes(word) || (word === '"' && !opens) || text.endsWith(' "') || ["", '"'].includes(text);
      const piece = attached ? word : ` ${word}`;
      text += piece;
      return piece;
    });
  }
  const sentenceEnd = new RegExp(data.sentence_end, "g");
  const patterns = data.patterns.map(([source, names]) => {
    const whole = source.replace(/\((\d+)\)/g, (_, number) => `(${data.choices[number]})`);
    return {pattern: new RegExp(whole, "dy"), names};
  });
  // The words of a text that say facts, and of each kind whether it is kept.
  function reading(text) {
    const facts = {}, mentions = [], kept = {sentence: true};
    for (let start = 0; start < text.length;) {
      const ways = patterns.flatMap(({pattern, names}) => {
        pattern.lastIndex = start;
        const match = pattern.exec(text);
        if (!match) return [];
        const said = names.map((name, i) => ({name, word: match[i + 1].toLowerCase(), start: match.indices[i + 1][0]}));
        const count = test => said.filter(test).length;
        return [{said, end: pattern.lastIndex, wrong: count(one => differs(one, facts) || coincides(one, facts)), fresh: count(({name}) => !(name in facts))}];
      });
      if (!ways.length) {
        sentenceEnd.lastIndex = start;
        start = sentenceEnd.exec(text) ? sentenceEnd.lastIndex : text.length;
        kept.sentence = false;
        continue;
      }
      const [best] = ways.sort((a, b) => a.wrong - b.wrong || a.fresh - b.fresh);
      start = best.end;
      for (const one of best.said) {
        const kind = data.kinds[one.name], again = one.name in facts || kind === "pronoun";
        mentions.push({...one, kind, again, right: !differs(one, facts)});
        if (!again) facts[one.name] = one.word;
      }
    }
    for (const {kind} of mentions) {
      const said = mentions.filter(one => one.kind === kind);
      kept[kind] = said.every(one => one.right) && said.some(one => one.again);
    }
    return {mentions, kept};
  }
  function differs({name, word}, facts) {
    const kinds = data.kinds;
    if (kinds[name] === "pronoun") {
      const person = facts[name.startsWith("other ") ? "friend" : "hero"], pair = data.pronouns[name.split(" ").at(-1)];
      return person !== undefined && word !== pair[data.girls.includes(person) ? 0 : 1];
    }
    if (name in facts) return facts[name] !== word;
    if (name === "first" || name === "second") return ![facts.hero, facts.friend].includes(word) || [facts.first, facts.second].includes(word);
    return data.distinct.includes(kinds[name]) && coincides({name, word}, facts);
  }
  const coincides = ({name, word}, facts) =>
    !(name in facts) && Object.entries(facts).some(([known, said]) => data.kinds[known] === data.kinds[name] && said === word);

  return {data, max_len: model.max_len, softmax, newCaches, read, wordsOf, spaced, reading};
})();
