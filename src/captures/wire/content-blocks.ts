/** Assembles the content blocks of a streamed reply, as Anthropic and Bedrock number them. */
import { type JsonObject, parseJson } from '../json.ts';
import { joined, numberOr } from './wire-format.ts';

export class StreamedBlocks {
  readonly #blocks = new Map<number, JsonObject>();
  readonly #inputs = new Map<number, string>();

  begin(index: unknown, block: JsonObject): void {
    this.#blocks.set(numberOr(index, 0), { ...block });
  }

  /**
   * Returns the block at an index.
   *
   * @param beginning first fields of a block that did not begin with an event.
   */
  at(index: unknown, beginning: JsonObject = {}): JsonObject {
    const block = this.#blocks.get(numberOr(index, 0)) ?? beginning;
    this.#blocks.set(numberOr(index, 0), block);
    return block;
  }

  /** Adds a piece to the JSON text of a tool's input. */
  input(index: unknown, piece: unknown): void {
    if (typeof piece !== 'string') return;
    this.#inputs.set(numberOr(index, 0), joined(this.#inputs.get(numberOr(index, 0)), piece));
  }

  /**
   * Returns the blocks by index.
   *
   * @param finish receives a block with its tool's input: parsed, or as text when it is not JSON.
   */
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
