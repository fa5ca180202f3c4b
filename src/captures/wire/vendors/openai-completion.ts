/** Reads OpenAI's completions: `prompt` → `choices[].text`. */
import { assembleChoices, choicesOf } from '../choices.ts';
import { assistantMessages } from '../messages.ts';
import { asksForJson, batchOf, promptsOf, userMessages } from '../prompts.ts';
import type { WireFormat } from '../types.ts';
import { objectsIn, textIn, textsOf, without } from '../values.ts';

export const openAiCompletion: WireFormat = {
  name: 'openai-completion',
  format: 'completion',
  request(body) {
    const prompts = promptsOf(body.prompt);
    if (prompts === undefined) return undefined;
    return {
      messages: userMessages(prompts),
      parameters: without(body, 'prompt', 'model'),
      jsonRequested: asksForJson(body),
      ...batchOf(prompts),
    };
  },
  reply(body) {
    const choices = choicesOf(body, (choice) => typeof choice.text === 'string');
    return (
      choices && {
        replies: assistantMessages(choices.map((choice) => choice.text)),
        reasons: choices.map((choice) => choice.finish_reason),
      }
    );
  },
  delta(event) {
    const texts = textsOf(objectsIn(event.choices).map((choice) => choice.text));
    return texts.length === 0 ? undefined : { output: texts.join('') };
  },
  assemble(events) {
    if (!events.some((event) => objectsIn(event.choices).some(({ text }) => typeof text === 'string')))
      return undefined;
    const add = (choice: { text: string }, { text }: { text?: unknown }): void => {
      choice.text += textIn(text);
    };
    return assembleChoices(
      'text_completion',
      events,
      () => ({ text: '' }),
      add,
      (choice) => choice,
    );
  },
};
