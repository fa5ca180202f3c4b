/** Works through the items, `limit` at a time. After a failure no further one is begun, and those begun are awaited. */
export async function atOnce<T>(limit: number, items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  const next = items[Symbol.iterator]();
  let failure: { error: unknown } | undefined;
  const worker = async () => {
    for (let item = next.next(); !item.done && failure === undefined; item = next.next()) {
      try {
        await work(item.value);
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: limit }, worker));
  if (failure) throw failure.error;
}
