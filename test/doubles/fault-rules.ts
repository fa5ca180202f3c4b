/** Filters for the requests to fail, and error replies of S3. */
import type { Behavior, SeenRequest } from './misbehaving-server.ts';

export const isWrite = ({ method, path }: SeenRequest): boolean =>
  method !== 'GET' && !/\/(search|experiments\/)/.test(path);
export const isTraceWrite = ({ method, path }: SeenRequest): boolean =>
  (method === 'POST' && /^\/(v1\/traces|api\/3\.0\/mlflow\/traces)$/.test(path)) || method === 'PUT';
export const isVerdictWrite = ({ method, path, body }: SeenRequest): boolean =>
  method === 'POST' &&
  (/\/assessments$/.test(path) || (/\/mlflow\/traces$/.test(path) && body.includes('"assessments":[{')));
export const isAny = (): boolean => true;
export const inBucket = (bucket: string, method?: string) => (request: SeenRequest) =>
  request.path.startsWith(`/${bucket}`) && (method === undefined || request.method === method);

export const slowDown: Behavior = {
  kind: 'reply',
  status: 503,
  headers: { 'content-type': 'application/xml' },
  body: '<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>',
};
export const accessDenied: Behavior = {
  kind: 'reply',
  status: 403,
  headers: { 'content-type': 'application/xml' },
  body: '<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>',
};
