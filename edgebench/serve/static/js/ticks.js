// Round values for axes: memory in MiB on linear and log2 axes, slowdowns on a log axis.

const GIB = 1024;
const PARTS = [[1], [1, 1.5], [1, 1.25, 1.5, 1.75]];

const between = (values, low, high) => values.filter((value) => value >= low * 0.999 && value <= high * 1.001);

// Powers of two, and round parts of them where there is room for `most`.
export function logMib(low, high, most) {
  const powers = Array.from({ length: 26 }, (_, at) => 2 ** (at - 2));
  const choices = PARTS.map((parts) => between(powers.flatMap((power) => parts.map((part) => power * part)), low, high));
  return choices.findLast((values) => values.length <= most) ?? choices[0].filter((_, at) => at % 2 === 0);
}

export function linearMib(low, high, most) {
  let step = 0.25;
  while ((high - low) / step > most) step *= 2;
  return Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, at) => Math.ceil(low / step) * step + at * step).filter((value) => value <= high);
}

export function logTimes(low, high) {
  const powers = Array.from({ length: 7 }, (_, at) => 10 ** at);
  const all = between(powers.flatMap((power) => [power, 2 * power, 5 * power]), low, high);
  if (high / low < 4) return between([1, 1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4], low, high);
  return all.length <= 8 ? all : between(powers, low, high);
}

export const mibLabel = (mib) => (mib >= GIB ? `${Number((mib / GIB).toPrecision(3))} GiB` : String(Number(mib.toPrecision(4))));
