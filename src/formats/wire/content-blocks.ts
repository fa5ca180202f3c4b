/** Puts the content blocks of a streamed reply together, as Anthropic and Bedrock number them. */
import { type JsonObject, parseJson } from '../json.ts';
import { joined, numberOr } from './messages.ts';

/** The content blocks of a streamed reply, by their index. */
export class StreamedBlocks {
  readonly #blocks = new Map<number, JsonObject>();
  readonly #inputs = new Map<number, string>();

  begin(index: unknown, block: JsonObject): void {
    this.#blocks.set(numberOr(index, 0), { ...block });
  }

  /** @param beginning of the block, where nothing told it before. */
  at(index: unknown, beginning: JsonObject = {}): JsonObject {
    const block = this.#blocks.get(numberOr(index, 0)) ?? beginning;
    this.#blocks.set(numberOr(index, 0), block);
    return block;
  }

  /** A piece of the JSON text that a tool's input is. */
  input(index: unknown, piece: unknown): void {
    if (typeof piece !== 'string') return;
    this.#inputs.set(numberOr(index, 0), joined(this.#inputs.get(numberOr(index, 0)), piece));
  }

  /** @param finish takes a tool's input with its block; what does not parse in the end stays text. */
  inOrder(finish: (block: JsonObject, input: unknown) => void): JsonObject[] {
    return [...this.#blocks]
      .sort(([a], [b]) => a - b)
      .map(([index, block]) => {
        const pieces = this.#inputs.get(index) ?? '';
        const parsed = pieces === '' ? undefined : parseJson(pieces);
        finish(block, parsed?.ok ? parsed.value : pieces || undefined);
        return block;
      });
  }
}
