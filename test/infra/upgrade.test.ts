/** An upgrade of a deployed stack replaces nothing that holds data, or that has a name of its own. */
import { readFileSync } from 'node:fs';
import { resourcesOf, templateOf } from '../helpers/synth.ts';

/**
 * The logical ids of such resources in version 0.1.0, by type. CloudFormation takes another id for another resource: it would make
 * a second work bucket, empty, and fail at every name, since the first resource still has it. New ids may be added.
 */
const deployed = JSON.parse(readFileSync('test/infra/logical-ids.json', 'utf8')) as Record<string, string[]>;

it.each(Object.entries(deployed))('keeps each %s', (type, ids) => {
  const resources = resourcesOf(templateOf({ QUALITY_OBJECTIVES: '[{"scorer":"safety","atLeast":0.95}]' }));
  const kept = Object.entries(resources).filter(([, { Type }]) => Type === type);
  expect(kept.map(([id]) => id)).toEqual(expect.arrayContaining(ids));
});
