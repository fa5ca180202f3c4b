/**
 * A server that answers as Arthur documents: 207 with counts and failures for a file, 401 without the token, 400 for anything that
 * is no capture file.
 */
import {
  type Behavior,
  type MisbehavingServer,
  type SeenRequest,
  startMisbehavingServer,
} from './misbehaving-server.ts';

export const TOKEN = 'TOKEN-5kq83nvx';
export const MODEL = '3f1e9a52-7c40-4d0e-8a57-0b9e1c2d4f66';
const PATH = `/api/v3/models/${MODEL}/inferences/integrations/sagemaker_data_capture`;

export interface Arthur {
  server: MisbehavingServer;
  url: string;
  /** The files of all requests so far, as a server of forms reads them. */
  files(): Promise<{ name: string; text: string }[]>;
  /** Answers the first requests with these, and later ones as documented. */
  first(...behaviors: Behavior[]): void;
  stop(): Promise<void>;
}

export const answer = (status: number, body: unknown = {}, headers: Record<string, string> = {}): Behavior => ({
  kind: 'reply',
  status,
  headers,
  body: typeof body === 'string' ? body : JSON.stringify(body),
});

/** What Arthur answers if it takes all inferences of a file but these. */
export const taken = (total: number, failures: object[] = []): object => ({
  counts: { total, success: total - failures.length, failure: failures.length },
  failures,
});

function documented({ method, path, headers, body }: SeenRequest): Behavior {
  if (headers.authorization !== TOKEN) return answer(401, { error: `unauthorized: ${headers.authorization}` });
  if (method !== 'POST' || path !== PATH) return answer(404, { error: 'not found' });
  const text = body.toString('utf8');
  if (!/name="inference_data"; filename="[^"]*\.jsonl"/.test(text)) return answer(400, { error: 'no inference_data' });
  return answer(207, taken(text.split('"captureData"').length - 1));
}

/** The file in a form. */
export async function fileOf({ headers, body }: SeenRequest): Promise<{ name: string; text: string }> {
  const form = await new Response(new Uint8Array(body), {
    headers: { 'content-type': headers['content-type'] ?? '' },
  }).formData();
  const file = form.get('inference_data') as File;
  return { name: file.name, text: await file.text() };
}

export async function startArthur(): Promise<Arthur> {
  let scripted: Behavior[] = [];
  const server = await startMisbehavingServer({
    rule: (request) => scripted.shift() ?? documented(request),
  });
  return {
    server,
    url: server.url,
    files: () => Promise.all(server.requests.map(fileOf)),
    first: (...behaviors) => {
      scripted = behaviors;
    },
    stop: () => server.stop(),
  };
}
