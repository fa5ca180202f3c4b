import http2 from 'node:http2';
import type { EitherResponse } from '../../local/servers/either-http.ts';

/** Breaks the connection, or with HTTP/2 the stream, of a request. */
export function breakOff(response: EitherResponse): void {
  if ('stream' in response) response.stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
  else response.socket?.destroy();
}
