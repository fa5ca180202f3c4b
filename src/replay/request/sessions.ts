/**
 * Finds conversations among captured requests. A request whose messages begin with an earlier request and its reply is
 * the next turn of that conversation.
 */
import { hash } from 'node:crypto';
import { parseJson } from '../../captures/json.ts';

/** Maximum number of turns to remember; the least recently used is dropped. 50,000 × about 200 bytes are 10 MB. */
const MAX_REMEMBERED = 50_000;

export interface Turn {
  conversationId: string;
  /** Counted from 0. */
  turnIndex: number;
  /** Number of the conversation. */
  session: number;
}

interface Message {
  role?: unknown;
  content?: unknown;
  tool_calls?: unknown;
}

/** Returns the text of a message. A string and a list with one text part are equal. */
function contentOf(message: Message): string {
  const { content } = message;
  if (typeof content === 'string') return content.trim();
  if (content === null || content === undefined) return '';
  if (Array.isArray(content) && content.every((part) => part?.type === 'text' && typeof part.text === 'string')) {
    return content
      .map((part: { text: string }) => part.text)
      .join('')
      .trim();
  }
  return JSON.stringify(content);
}

/** Returns the tool calls as text, regardless of the order of their keys and the spacing of their arguments. */
function callsOf({ tool_calls: calls }: Message): string {
  if (!Array.isArray(calls)) return calls ? JSON.stringify(calls) : '';
  return JSON.stringify(
    calls.map((call) => {
      const { name, arguments: given } = call?.function ?? {};
      return [call?.id, name, argumentsOf(given)];
    }),
  );
}

function argumentsOf(given: unknown): unknown {
  if (typeof given !== 'string') return given;
  const parsed = parseJson(given);
  return parsed.ok ? parsed.value : given;
}

/** A role that is not a string may be an object without a text. */
const roleOf = ({ role }: Message): string => (typeof role === 'string' ? role : `${JSON.stringify(role)}`);

const digest = (before: string, message: Message): string =>
  hash('sha1', `${before}\n${roleOf(message)}\n${contentOf(message)}\n${callsOf(message)}`, 'base64');

interface Conversation extends Omit<Turn, 'turnIndex'> {
  /** Number of requests so far. */
  turns: number;
}

const isMessage = (value: unknown): value is Message => typeof value === 'object' && value !== null;

/** Assigns requests, given in the order of their capture, to conversations. */
export class SessionLinker {
  readonly #ends = new Map<string, Conversation>();

  /**
   * @param messages `messages` of the request. Without them the request is a separate conversation.
   * @param reply the message that answered it, if it was captured.
   * @param begin gives a new conversation its name and number
   */
  link(messages: unknown, reply: unknown, begin: () => Omit<Turn, 'turnIndex'>): Turn {
    const list = Array.isArray(messages) ? messages.filter(isMessage) : [];
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
    if (list.length > 0 && isMessage(reply))
      this.#remember(digest(chain, { role: 'assistant', ...reply }), conversation);
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
