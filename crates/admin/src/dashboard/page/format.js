// Numbers and times as text.

const whole = new Intl.NumberFormat("en");

export const count = (value) => (Number.isFinite(value) ? whole.format(value) : null);

function scaled(value, step, units) {
  let at = 0;
  while (value >= step && at < units.length - 1) {
    value /= step;
    at += 1;
  }
  const digits = at === 0 && Number.isInteger(value) ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return `${value.toFixed(digits)}${units[at] && ` ${units[at]}`}`;
}

export const rate = (value) => (Number.isFinite(value) ? `${scaled(value, 1000, ["", "k", "M", "G"])}/s` : null);

export const bytes = (value) => (Number.isFinite(value) ? scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]) : null);

export function time(seconds) {
  if (!Number.isFinite(seconds)) return null;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

// Numbers as ranges: 0 to 3, 7.
export function ranges(numbers) {
  const parts = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last && last[1] + 1 === number) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(", ");
}
