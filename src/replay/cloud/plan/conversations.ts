/**
 * Finds the conversations of all captures while they are indexed, because a shard sees only some of the turns. Requests are
 * linked in the order of file and line, which is their time order within a variant.
 */
import { literalRequest } from '../../request/literal.ts';
import { capturedReply, replyMessage } from '../../request/preparer.ts';
import { SessionLinker, type Turn } from '../../request/sessions.ts';
import type { ScheduledEntry } from '../../schedule/timing.ts';
import type { IndexEntry, SourceFile } from '../../source/types.ts';

/**
 * Maximum number of later turns in memory: about 150 bytes each, 150 MB in all. Further turns count as separate
 * conversations.
 */
const MAX_LATER_TURNS = 1_000_000;
/** Every wire format of messages contains `role`. Base64 hides it. */
const CHAT_MARKS = [Buffer.from('role'), Buffer.from('BASE64')];

export type ConversationFinder = ReturnType<typeof conversationFinder>;

/**
 * Collects the turns of conversations, and returns the turn of each request.
 *
 * @param mask masks the names of conversations, which are ids that callers choose
 */
export function conversationFinder(mask = (name: string): string => name) {
  const linker = new SessionLinker();
  /** Turns after the first, by their place. */
  const later = new Map<number, Turn>();
  /** Number of places before each file's first line. */
  const bases: number[] = [];
  let fileName = '';
  let lines = 0;
  /** The number of a record's line among all lines of all files. */
  const placeOf = ({ file, line }: IndexEntry): number => (bases[file] ?? 0) + line;
  const link = (bytes: Buffer, entry: IndexEntry, place: number): Turn | undefined => {
    const literal = literalRequest(bytes);
    if (literal.kind === 'skipped' || literal.request.prompt === undefined) return undefined;
    const { request } = literal;
    // The number of a conversation is the place of its first request.
    return linker.link(request.prompt?.messages, replyMessage(capturedReply(request)), () => ({
      conversationId: mask(request.eventId ?? `${fileName}:${entry.line}`),
      session: place,
    }));
  };
  return {
    /** Starts a file. Call it before the records of the file, in the order of the files. */
    file: (file: SourceFile): void => {
      bases.push(lines);
      fileName = file.name;
    },
    /** @param bytes the whole line */
    record: (bytes: Buffer, entry: IndexEntry): void => {
      const place = placeOf(entry);
      lines = Math.max(lines, place + 1);
      if (!CHAT_MARKS.some((mark) => bytes.includes(mark))) return;
      let turn: Turn | undefined;
      try {
        turn = link(bytes, entry, place);
      } catch {
        // The request counts as a separate conversation. The shard that sends it reports the error.
      }
      if (turn && turn.turnIndex > 0 && later.size < MAX_LATER_TURNS) later.set(place, turn);
    },
    /** Returns the turn of a scheduled request. Each pass through the captures has separate conversations. */
    turnOf: (entry: IndexEntry, pass: number): NonNullable<ScheduledEntry['turn']> => {
      const place = placeOf(entry);
      const passBase = pass * lines;
      const turn = later.get(place);
      if (!turn) return { session: passBase + place, turnIndex: 0 };
      const conversationId = pass === 0 ? turn.conversationId : `${turn.conversationId}#${pass}`;
      return { session: passBase + turn.session, turnIndex: turn.turnIndex, conversationId };
    },
  };
}
