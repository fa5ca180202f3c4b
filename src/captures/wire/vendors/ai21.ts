/** Reads AI21's Jurassic: `completions[].data.text`. */
import { assistantMessages } from '../messages.ts';
import { fieldsOf, objectsIn, textsOf, type WireFormat } from '../types.ts';

export const ai21: WireFormat = {
  name: 'ai21',
  format: 'completion',
  reply({ completions }) {
    const items = objectsIn(completions);
    const texts = textsOf(items.map((item) => fieldsOf(item.data).text));
    if (texts.length === 0 || texts.length < (completions as unknown[]).length) return undefined;
    return { replies: assistantMessages(texts), reasons: items.map((item) => fieldsOf(item.finishReason).reason) };
  },
};
