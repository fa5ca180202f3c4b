/** Splits a list into parts, for services that limit the size of a request. */
export function* batches<T>(list: readonly T[], size: number): Generator<T[]> {
  for (let from = 0; from < list.length; from += size) yield list.slice(from, from + size);
}
