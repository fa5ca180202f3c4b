/** Finds replies of the second run that newly fail a scorer without a model: the first run's reply passes it. */
import type { Capture } from '../../captures/types.ts';
import { chatCapture } from '../../judge/chat-capture.ts';
import { codeScorers, scoreOf } from '../../judge/scorers/code-scorers.ts';
import { canFail, isFailure } from '../../judge/scorers/values.ts';
import type { CodeScorer } from '../../judge/types.ts';
import { MAX_TEXT, replyMessageOf, type StoredReply } from './replies-file.ts';
import type { ComparableReply } from './reply.ts';

/** The scorers that are functions of the exchange, and of which a value is a failure. */
export const FREE_SCORERS = codeScorers.filter(canFail);

/** A reply that is not text, or not complete, cannot be scored. */
const isScorable = ({ ok, text, toolCalls, notKeptBytes }: ComparableReply): boolean =>
  ok && notKeptBytes === undefined && text.length <= MAX_TEXT && (text !== '' || toolCalls !== undefined);

/**
 * Both runs have the same request, so it cannot distinguish the replies. For personal data, only the system prompt
 * matters.
 */
const requestFor = ({ name }: CodeScorer, { messages = [] }: StoredReply) =>
  name === 'pii_detected' ? messages.filter(({ role }) => role === 'system' || role === 'developer') : messages;

function captureOf(scorer: CodeScorer, stored: StoredReply, reply: ComparableReply): Capture {
  const { further = [], finishReasons = [] } = reply;
  const first = replyMessageOf(reply) ?? { role: 'assistant', content: '' };
  const replies = [first, ...further.map((content) => ({ role: 'assistant', content }))];
  const capture = chatCapture(requestFor(scorer, stored), replies);
  const conversation = { messages: [], replies, parameters: {}, ...capture.conversation };
  return {
    ...capture,
    conversation: { ...conversation, jsonRequested: stored.json_requested === true, finishReasons },
  };
}

/** Whether a reply fails the scorer. `undefined` if the scorer does not apply. */
function fails(scorer: CodeScorer, stored: StoredReply, reply: ComparableReply | undefined): boolean | undefined {
  if (!reply || !isScorable(reply)) return undefined;
  const scored = scoreOf(scorer, captureOf(scorer, stored, reply));
  return 'notJudgeable' in scored ? undefined : isFailure(scorer, scored.value);
}

/**
 * For each free scorer, whether a pair newly fails it. `undefined` if it does not apply to the second reply, `null` if
 * it does not apply to the first.
 */
export const newFailures = (pair: StoredReply): (boolean | undefined | null)[] =>
  FREE_SCORERS.map((scorer) => {
    const before = fails(scorer, pair, pair.captured);
    if (before === undefined) return null;
    const isSame = pair.comparison?.identical && `${pair.captured?.finishReasons}` === `${pair.reply.finishReasons}`;
    const after = isSame ? before : fails(scorer, pair, pair.reply);
    return after === undefined ? undefined : after && !before;
  });
