/** The metrics that functions publish. */

/** Collects them from now on, from the output of this process, which then shows nothing. */
export function publishedMetrics(): Record<string, unknown>[] {
  const published: Record<string, unknown>[] = [];
  jest.spyOn(process.stdout, 'write').mockImplementation((text) => {
    if (String(text).startsWith('{"_aws"')) published.push(JSON.parse(String(text)));
    return true;
  });
  return published;
}
