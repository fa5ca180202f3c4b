/** An endpoint that answers each request with a given reply, streamed or not, and writes Data Capture lines as SageMaker does. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  StandInEndpoint as PlainEndpoint,
  payloadPart,
  SAGEMAKER_ROUTE,
  send,
} from '../../local/stand-in-endpoint/server.ts';

export interface GivenReply {
  bytes: Buffer;
  contentType: string;
}

/** Bytes of a piece of a streamed reply. A piece ends within characters. */
const PIECE = 61;

export class CapturingEndpoint extends PlainEndpoint {
  /** By the request's inference id. */
  readonly replies = new Map<string, GivenReply>();
  /** The lines that SageMaker would write, also of streamed replies, by the request's inference id. */
  readonly captured = new Map<string, string>();

  protected override route(url: string, message: IncomingMessage, body: Buffer, response: ServerResponse): void {
    const id = String(message.headers['x-amzn-sagemaker-inference-id']);
    const reply = this.replies.get(id);
    const [, , streamed] = SAGEMAKER_ROUTE.exec(url) ?? [];
    if (reply === undefined) {
      send(response, 400, 'application/json', '{"message":"no such reply"}');
      return;
    }
    this.captured.set(
      id,
      captureLineOf(id, { bytes: body, contentType: String(message.headers['content-type']) }, reply),
    );
    response.setHeader('x-amzn-invoked-production-variant', 'blue');
    if (streamed === undefined) {
      response
        .writeHead(200, { 'content-type': reply.contentType, 'content-length': reply.bytes.length })
        .end(reply.bytes);
      return;
    }
    response.writeHead(200, {
      'content-type': 'application/vnd.amazon.eventstream',
      'x-amzn-sagemaker-content-type': reply.contentType,
    });
    for (let at = 0; at < reply.bytes.length; at += PIECE)
      response.write(payloadPart(reply.bytes.subarray(at, at + PIECE)));
    response.end();
  }
}

function captureLineOf(inferenceId: string, request: GivenReply, reply: GivenReply): string {
  const side = ({ bytes, contentType }: GivenReply, mode: string): object => {
    const encoding = /json/.test(contentType) ? 'JSON' : /csv/.test(contentType) ? 'CSV' : 'BASE64';
    const isText = Buffer.from(bytes.toString()).equals(bytes) && encoding !== 'BASE64';
    const data = bytes.toString(isText ? 'utf8' : 'base64');
    return { observedContentType: contentType, mode, data, encoding: isText ? encoding : 'BASE64' };
  };
  const captureData = { endpointInput: side(request, 'INPUT'), endpointOutput: side(reply, 'OUTPUT') };
  const eventMetadata = { eventId: inferenceId, inferenceId, inferenceTime: new Date().toISOString() };
  return JSON.stringify({ captureData, eventMetadata, eventVersion: '0' });
}
