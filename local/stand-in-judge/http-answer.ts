/** An HTTP answer of the stand-in judge. */

export interface HttpAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

export const jsonAnswer = (status: number, body: unknown, headers: Record<string, string> = {}): HttpAnswer => ({
  status,
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body),
});

/** An error in the form AWS services use: its type in a header, its message in the body. */
export const serviceError = (status: number, type: string, message: string): HttpAnswer =>
  jsonAnswer(status, { message }, { 'x-amzn-errortype': type });
