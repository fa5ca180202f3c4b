/** The stand-in for a model, in this process: verdicts by rule, without a network, credentials or cost. */
import { CallFailure } from '../errors.ts';
import { userText } from '../prompt/build-prompt.ts';
import { estimateTokens } from '../tokens.ts';
import type { JudgeTransport } from '../transports/transport.ts';
import { answerByRule } from './answer.ts';
import { readOwnPrompt } from './read-prompt.ts';

export const standInTransport = (): JudgeTransport => ({
  sourceId: 'stand-in:/rules',
  userSet: new Set(),
  async send({ prompt }) {
    const user = userText(prompt);
    const read = readOwnPrompt(prompt.system, user);
    if (read === undefined) throw new CallFailure('rejected', 'The prompt has no record that the stand-in recognizes');
    const text = JSON.stringify(answerByRule(read));
    const [inputTokens, outputTokens] = [estimateTokens(`${prompt.system}${user}`), estimateTokens(text)];
    return { text, stop: 'end', stopReason: 'end_turn', usage: { inputTokens, outputTokens } };
  },
});
