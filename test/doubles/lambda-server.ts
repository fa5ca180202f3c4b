/** Lambda at its wire: a function of the test answers the requests to a scorer. */
import { json } from 'node:stream/consumers';
import type { ScorerRequest } from '../../src/judge/functions/contract.ts';
import { serve } from '../helpers/serve.ts';

/** `body`: JSON or its text; `error`: of the function; `refused`: the type of Lambda's own error; `hang` and `cut` give no reply. */
export type Invoked =
  | { body: unknown }
  | { error: { errorType: string; errorMessage: string } }
  | { status: number; refused: string }
  | 'hang'
  | 'cut';

/** Each value by the trace that it is asked about. */
export const valuesFor = (request: ScorerRequest, of: (traceId: string) => unknown = () => 0.5): Invoked => ({
  body: { results: request.records.map(({ traceId }) => ({ value: of(traceId) })) },
});

export async function lambdaServer(answer: (request: ScorerRequest, invocation: number) => Invoked | Promise<Invoked>) {
  const requests: ScorerRequest[] = [];
  const paths: string[] = [];
  const serving = await serve(async (request, response) => {
    const asked = (await json(request)) as ScorerRequest;
    paths.push(decodeURIComponent(request.url ?? ''));
    const given = await answer(asked, requests.push(asked));
    if (given === 'hang') return;
    if (given === 'cut') {
      request.socket.destroy();
    } else if ('refused' in given) {
      const headers = { 'x-amzn-errortype': given.refused, 'content-type': 'application/json' };
      response.writeHead(given.status, headers).end(JSON.stringify({ Type: 'User', Message: 'refused' }));
    } else if ('error' in given) {
      response.writeHead(200, { 'x-amz-function-error': 'Unhandled' }).end(JSON.stringify(given.error));
    } else {
      response.writeHead(200).end(typeof given.body === 'string' ? given.body : JSON.stringify(given.body));
    }
  });
  process.env.AWS_ENDPOINT_URL_LAMBDA = serving.url;
  return { requests, paths, close: serving.close };
}
