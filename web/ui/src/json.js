// JSON whose integers keep all their digits: those that a double can't hold are BigInt.

// parse reads JSON.
export function parse(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, v, context) =>
    typeof v === "number" && Number.isInteger(v) && !Number.isSafeInteger(v) && /^-?\d+$/.test(context?.source ?? "")
      ? BigInt(context.source)
      : v,
  );
}

// stringify writes what parse reads. Where there is a BigInt, the browser has rawJSON.
export const stringify = (v) => JSON.stringify(v ?? null, (_, x) => (typeof x === "bigint" ? JSON.rawJSON(String(x)) : x));
