/**
 * Finds conversations among captured requests. A request whose messages begin with an earlier request and its reply is
 * the next turn of that conversation.
 */
import { hash } from 'node:crypto';
import type { ChatMessage } from '../../captures/types.ts';
import { isTextPart } from '../../captures/wire/messages.ts';
import { jsonIn } from '../../core/values/json-in.ts';

/** Maximum number of turns to remember; the least recently used is dropped. 50,000 × about 200 bytes are 10 MB. */
const MAX_REMEMBERED = 50_000;

export interface Turn {
  conversationId: string;
  /** Counted from 0. */
  turnIndex: number;
  /** Number of the conversation. */
  session: number;
}

/** Returns the content of a message. A string and a list with one text part are equal. */
function contentOf({ content }: ChatMessage): unknown {
  if (!Array.isArray(content)) return content?.trim() ?? '';
  return content.every(isTextPart)
    ? content
        .map(({ text }) => text)
        .join('')
        .trim()
    : content;
}

/** Returns the tool calls, regardless of the order of their keys and the spacing of their arguments. */
const callsOf = ({ tool_calls: calls }: ChatMessage): unknown[] =>
  // Captured messages may have `null`.
  (calls ?? []).map(({ id, function: { name, arguments: given } }) => [id, name, jsonIn(given) ?? given]);

const digest = (before: string, message: ChatMessage): string =>
  hash('sha1', JSON.stringify([before, message.role, contentOf(message), callsOf(message)]), 'base64');

interface Conversation extends Omit<Turn, 'turnIndex'> {
  /** Number of requests so far. */
  turns: number;
}

/** Assigns requests, given in the order of their capture, to conversations. */
export class SessionLinker {
  readonly #ends = new Map<string, Conversation>();

  /**
   * @param messages `messages` of the request. Without them the request is a separate conversation.
   * @param reply the message that answered it, if it was captured.
   * @param begin gives a new conversation its name and number
   */
  link(
    messages: readonly ChatMessage[] | undefined,
    reply: ChatMessage | undefined,
    begin: () => Omit<Turn, 'turnIndex'>,
  ): Turn {
    const list = messages ?? [];
    let chain = '';
    let before: Conversation | undefined;
    for (const [i, message] of list.entries()) {
      chain = digest(chain, message);
      // A turn ends with the assistant's message, and the request continues after it.
      if (message.role === 'assistant' && i < list.length - 1) {
        const known = this.#ends.get(chain);
        if (known) {
          before = known;
          this.#ends.delete(chain);
          this.#ends.set(chain, known);
        }
      }
    }
    const conversation = before ?? { ...begin(), turns: 0 };
    if (list.length > 0 && reply) this.#remember(digest(chain, reply), conversation);
    const { conversationId, session } = conversation;
    // A repeated turn, with another text or reply, has the next index: indexes are unique.
    return { conversationId, session, turnIndex: conversation.turns++ };
  }

  #remember(end: string, turn: Conversation): void {
    // Two users may have sent the same messages. The first keeps the conversation, so that its turns stay in sequence.
    if (this.#ends.has(end)) return;
    this.#ends.set(end, turn);
    if (this.#ends.size > MAX_REMEMBERED) this.#ends.delete(this.#ends.keys().next().value as string);
  }
}
