/** Lines of streams as the capture client writes them, with the times of their pieces. */

const event = (data: object): string => `data: ${JSON.stringify(data)}\n\n`;

/** Returns the side and the fields of `client` of a reply that came in these pieces. @param pieces their times, and what came */
export function streamedSide(pieces: (readonly [number, string | Buffer])[], contentType = 'text/event-stream') {
  const data = pieces.map(([, piece]) => Buffer.from(piece));
  const times = pieces.map(([ms], n) => [ms, data[n]?.length ?? 0]);
  const whole = Buffer.concat(data);
  return {
    side: { observedContentType: contentType, mode: 'OUTPUT', encoding: 'BASE64', data: whole.toString('base64') },
    client: { pieces: times, pieceCount: times.length, replyBytes: whole.length },
  };
}

/**
 * Returns a line whose reply, a chat completion as text, came as a stream: a comment at once, the role, all words after `firstMs`, and
 * the usage at the end. Without `firstMs`, its reply stays as it is.
 */
export function timedLine(line: object, given: unknown): { client: unknown; captureData?: object } {
  const { firstMs, ...client } = Object(given);
  if (firstMs === undefined) return { ...line, client: given };
  const { captureData, ...others } = line as { captureData: { endpointOutput: { data: string } } };
  const { choices = [], usage, ...reply } = JSON.parse(captureData.endpointOutput.data);
  const [{ message, finish_reason = 'stop' } = { message: undefined }] = choices;
  const { role, ...delta } = message ?? {};
  const { side, client: seen } = streamedSide([
    [Math.min(firstMs, Number(client.firstByteMs ?? 0)), ': ping\n\n'],
    [firstMs, event({ choices: [{ index: 0, delta: { role, content: '' } }] }).slice(0, 20)],
    [firstMs, event({ choices: [{ index: 0, delta: { role, content: '' } }] }).slice(20)],
    [firstMs, event({ ...reply, ...(message && { choices: [{ index: 0, delta, finish_reason }] }) })],
    [Number(client.endMs), `${event({ choices: [], ...(usage && { usage }) })}data: [DONE]\n\n`],
  ]);
  return { ...others, captureData: { ...captureData, endpointOutput: side }, client: { ...seen, ...client } };
}
