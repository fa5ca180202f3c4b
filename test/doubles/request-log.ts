/** Writes requests to emulated AWS services down, for the tests, which hold them against AWS's own models (decision 0072). */
import { appendFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { join } from 'node:path';

/** A request as a server received it. `url` is its path with the query; `text` its body, unless that is binary. */
interface LoggedRequest {
  method: string;
  url: string;
  headers: IncomingHttpHeaders;
  text?: string;
  /** Length of the body in bytes. */
  length: number;
}

/** Appends a request to this process's log, if there is one. */
export function logRequest({ url, headers, ...request }: LoggedRequest): void {
  const folder = process.env.REQUEST_LOG;
  if (!folder) return;
  const [path, query = ''] = url.split('?');
  appendFileSync(
    join(folder, `process-${process.pid}.jsonl`),
    `${JSON.stringify({ path, query, headers, ...request })}\n`,
  );
}
