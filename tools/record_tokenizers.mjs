// Records tests/golden/tokenizers with Hugging Face's own tokenizers (the npm package, bindings to the
// Rust library):
//
//   npm pack tokenizers@0.23.2 && tar -xzf tokenizers-0.23.2.tgz
//   node tools/record_tokenizers.mjs package/index.js tests/golden/tokenizers
//
// Trains on sample.txt, writes small tokenizer.json files of the GPT-2, Llama 3 and Qwen 2 kind, and
// what they encode and decode.
import { readFileSync, writeFileSync, mkdtempSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const [packageFile, folder] = process.argv.slice(2);
const hf = createRequire(import.meta.url)(resolve(packageFile));
const sample = join(folder, "sample.txt");
const scratch = mkdtempSync(join(tmpdir(), "tokenizers-"));
const MERGES = 320;

const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const TAIL = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const LLAMA3 = `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}${TAIL}`;
const QWEN2 = `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}${TAIL}`;

const byteLevel = (useRegex) => ({
  type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: useRegex,
});
const split = (regex) => ({
  type: "Sequence",
  pretokenizers: [
    { type: "Split", pattern: { Regex: regex }, behavior: "Isolated", invert: false },
    byteLevel(false),
  ],
});
const added = (id, content, special, normalized) => ({
  id, content, single_word: false, lstrip: false, rstrip: false, normalized, special,
});

// The first merges that Hugging Face's trainer makes of the sample, line by line.
function trainedMerges(preTokenizer) {
  const model = { type: "BPE", vocab: {}, merges: [] };
  const empty = { version: "1.0", added_tokens: [], pre_tokenizer: preTokenizer, model };
  const tokenizer = hf.Tokenizer.fromString(JSON.stringify(empty));
  tokenizer.train([sample]);
  const file = join(scratch, "trained.json");
  tokenizer.save(file);
  return JSON.parse(readFileSync(file, "utf8")).model.merges.slice(0, MERGES);
}

// All bytes, in the order of their characters, and then the merges.
function vocabularyOf(merges, first = []) {
  const tokens = [...first, ...hf.byteLevelAlphabet().sort(), ...merges.map(([a, b]) => a + b)];
  return Object.fromEntries([...new Set(tokens)].map((token, id) => [token, id]));
}

function gpt2() {
  const merges = trainedMerges(byteLevel(true));
  const vocab = vocabularyOf(merges);
  const end = Object.keys(vocab).length;
  vocab["<|endoftext|>"] = end;
  return {
    version: "1.0", truncation: null, padding: null,
    added_tokens: [added(end, "<|endoftext|>", true, true)],
    normalizer: null, pre_tokenizer: byteLevel(true), post_processor: byteLevel(false),
    decoder: byteLevel(true),
    model: {
      dropout: null, unk_token: null, continuing_subword_prefix: "", end_of_word_suffix: "",
      fuse_unk: false, vocab, merges: merges.map((pair) => pair.join(" ")),
    },
  };
}

// With ignore_merges, and a word that no merge makes.
function llama3() {
  const merges = trainedMerges(split(LLAMA3));
  const vocab = vocabularyOf(merges);
  const size = Object.keys(vocab).length;
  vocab["Ġdignity"] = size;
  vocab["ze"] = size + 1;
  const begin = size + 2;
  const template = {
    type: "TemplateProcessing",
    single: [
      { SpecialToken: { id: "<|begin_of_text|>", type_id: 0 } },
      { Sequence: { id: "A", type_id: 0 } },
    ],
    pair: [{ Sequence: { id: "A", type_id: 0 } }, { Sequence: { id: "B", type_id: 1 } }],
    special_tokens: {
      "<|begin_of_text|>": { id: "<|begin_of_text|>", ids: [begin], tokens: ["<|begin_of_text|>"] },
    },
  };
  return {
    version: "1.0", truncation: null, padding: null,
    added_tokens: [
      added(begin, "<|begin_of_text|>", true, false), added(begin + 1, "<|end_of_text|>", true, false),
      added(begin + 2, "<|end", true, false),
    ],
    normalizer: null, pre_tokenizer: split(LLAMA3),
    post_processor: { type: "Sequence", processors: [byteLevel(false), template] },
    decoder: byteLevel(true),
    model: {
      type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: null,
      end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: true,
      vocab, merges,
    },
  };
}

function qwen2() {
  const merges = trainedMerges(split(QWEN2));
  const vocab = vocabularyOf(merges);
  const size = Object.keys(vocab).length;
  return {
    version: "1.0", truncation: null, padding: null,
    added_tokens: [
      added(size, "<|endoftext|>", true, false), added(size + 1, "<|im_start|>", true, false),
      added(size + 2, "<tool_call>", false, false), added(size + 3, "é!", false, true),
    ],
    normalizer: { type: "NFC" }, pre_tokenizer: split(QWEN2), post_processor: byteLevel(false),
    decoder: byteLevel(false),
    model: {
      type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: "",
      end_of_word_suffix: "", fuse_unk: false, byte_fallback: false, ignore_merges: false,
      vocab, merges: merges.map((pair) => pair.join(" ")),
    },
  };
}

const TEXTS = [
  "", " ", "\n", "a", "The whale", "Hello, world! It's 2026, isn't it?", "I'LL WE'VE they're he'd I'm 'S 'Re",
  "it'\u017f 'x '' 'l 'lll", "1 12 123 1234 12345 3.14159 ٣٤٥٦ Ⅷ½²", "  two  spaces   three\t\ttabs \t mixed",
  "line\nline\n\nline\r\n\r\n  indented\n\t\n  \n end ", "a \n b\n\n\n c   \n   d", "\u00a0nbsp\u3000wide\u2028sep\u0085nel",
  "x = {\n    'key': [1, 2, 3],\n}\n\n\n", "def f(x):\n\treturn x**2  # square\n", "...!!!???---___==>>>\n\n",
  "Ünïcödé naïve café Straße ŒUVRE", "e\u0301\u0323 e\u0323\u0301 A\u030a \u1e9b\u0323 o\u0302\u0323", "\u1112\u1161\u11ab\u1100\u1173\u11af 한글 각",
  "\u212b \u2126 \u0958 \u2adc \ufb1d \u0344", "人人生而自由，在尊严和权利上一律平等。", "すべての人間は、自由である。", "모든 인간은 자유",
  "يولد جميع الناس أحراراً", "सभी मनुष्यों को गौरव", "👩‍👩‍👧 🏳️‍🌈 👍🏽!", "𝔘𝔫𝔦 𐐀𐐨 𞤀",
  "<|endoftext|>a<|endoftext|>", "<|begin_of_text|>x<|end_of_text|><|end|><|en", "<|im_start|>user\nhi<tool_call>é!e\u0301!",
  " dignity dignity dignity, ze zeze", "\u0000\u0001\u007f control", "\ufeffbom \ufffd", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  "=".repeat(300), "abc".repeat(100), " ".repeat(70) + "x",
];

// Random strings of characters that the patterns treat differently.
function randomTexts(count) {
  const alphabet = [..."  \n\r\t'aeslrvdmtSTLREVDM019.,!(_é\u0301\u00a0\u3000\u017fßя中가\u1100\u1161\u11a8٣½👍\u200d<|>"];
  let state = 12345n;
  const next = (n) => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & ((1n << 64n) - 1n);
    return Number(state >> 33n) % n;
  };
  return Array.from({ length: count }, () =>
    Array.from({ length: 1 + next(24) }, () => alphabet[next(alphabet.length)]).join(""));
}

const kinds = { gpt2: gpt2(), llama3: llama3(), qwen2: qwen2() };
const texts = [...TEXTS, ...randomTexts(200), readFileSync(sample, "utf8").slice(-2500)];
const record = { recorded_with: "Hugging Face tokenizers 0.23.2", texts, tokenizers: {} };
for (const [name, file] of Object.entries(kinds)) {
  writeFileSync(join(folder, `${name}.json`), JSON.stringify(file) + "\n");
  const tokenizer = hf.Tokenizer.fromString(JSON.stringify(file));
  const ids = [], templated = [], decoded = [];
  for (const text of texts) {
    const encoding = await tokenizer.encode(text, null, { addSpecialTokens: false });
    ids.push(encoding.getIds());
    templated.push((await tokenizer.encode(text)).getIds().length);
    decoded.push(await tokenizer.decode(encoding.getIds(), true));
  }
  record.tokenizers[name] = { ids, templated, decoded };
}
writeFileSync(join(folder, "encodings.json"), JSON.stringify(record) + "\n");
