/** Two validators check the definitions. */
import { getLanguageService, TextDocument } from 'amazon-states-language-service';
import validate from 'asl-validator';
import { definitionOf, GROUND_TRUTH, MONITORING, REPLAY, templateOf } from '../helpers/synth.ts';

const template = templateOf();

/** The messages of `asl-validator`, on a copy since it modifies its argument. */
function byAslValidator(subject: object): string[] {
  const result = validate(JSON.parse(JSON.stringify(subject)));
  return result.isValid ? [] : result.errors.map((error) => error.Message);
}

/** The messages of AWS's own language service, as editors show them. */
async function byLanguageService(subject: object): Promise<string[]> {
  const service = getLanguageService({});
  const document = TextDocument.create('file:///definition.asl.json', 'asl', 1, JSON.stringify(subject, null, 2));
  const diagnostics = await service.doValidation(document, service.parseJSONDocument(document));
  return diagnostics.map(({ message }) => JSON.stringify(message));
}

it.each([MONITORING, REPLAY, GROUND_TRUTH])('both accept the definition of %s', async (id) => {
  const subject = definitionOf(template, id);
  expect(byAslValidator(subject)).toEqual([]);
  expect(await byLanguageService(subject)).toEqual([]);
});
