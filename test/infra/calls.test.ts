/**
 * Each role allows exactly what acts with it can do: the AWS calls in the bundle of a function, the states of a state machine.
 * Actions, resources and condition keys are those of AWS's service reference. The tests of the policies check them statement
 * by statement, and the integration test with enforced policies checks that they are sufficient.
 */
import type { Template } from 'aws-cdk-lib/assertions';
import { namedOperations } from '../aws-requests/product-operations.ts';
import { ALL_FOLDERS, FOLDERS, faultsOfCalls, type Need, UNREACHED } from '../helpers/iam-needs.ts';
import {
  AUTHORIZED_AS,
  accepts,
  faultsOfLine,
  type Reference,
  readReference,
  UNLISTED,
} from '../helpers/iam-reference.ts';
import { faultsOfRole, linesOf, needsOf } from '../helpers/iam-roles.ts';
import { type Bundle, bundlesOf } from '../helpers/sdk-calls.ts';
import { settingsVariants } from '../helpers/settings-variants.ts';
import { denialsOf, flattened, type Line, REGION, resourcesOf, resourcesOfType, templateOf } from '../helpers/synth.ts';

interface Variant {
  name: string;
  template: Template;
  lines: Record<string, Line[]>;
  needs: Record<string, Need[]>;
}

let reference: Reference;
let bundles: Record<string, Bundle>;
let variants: Variant[];
beforeAll(async () => {
  reference = await readReference();
  bundles = await bundlesOf(Object.values(ALL_FOLDERS));
  variants = Object.entries(settingsVariants({ region: REGION, partition: 'aws' })).map(([name, settings]) => {
    const template = templateOf(settings, REGION);
    return { name, template, lines: linesOf(template), needs: needsOf(reference, template, settings) };
  });
});

/** A role in a variant, with its statements and its needs. */
interface Case {
  label: string;
  lines: Line[];
  needs: Need[];
}
const cases = (): Case[] =>
  variants.flatMap(({ name, lines, needs }) =>
    [...new Set([...Object.keys(lines), ...Object.keys(needs)])].map((role) => ({
      label: `${role}, ${name}`,
      lines: lines[role] ?? [],
      needs: needs[role] ?? [],
    })),
  );

it('covers all functions', () => {
  const functions = Object.keys(resourcesOfType((variants[0] as Variant).template, 'AWS::Lambda::Function'));
  const ours = functions.filter((id) => id !== 'CapturesNotificationsFunction');
  expect(ours).toEqual(Object.keys(FOLDERS).map((step) => `${step}Function`));
});

it('knows what each call of each bundle concerns', () => {
  expect(faultsOfCalls(bundles)).toEqual([]);
});

it('knows in which test each call of each bundle is held against AWS’s models', () => {
  const calls = Object.values(bundles).flatMap((bundle) => bundle.calls.filter((call) => !UNREACHED.includes(call)));
  const names = new Set(calls.map((call) => call.split(':')[1] ?? ''));
  // The replay's own HTTP client makes this one, and signed posts the others.
  for (const name of ['InvokeEndpointWithResponseStream', 'SendMessage', 'ChangeMessageVisibility']) names.add(name);
  expect(new Set(namedOperations())).toEqual(names);
});

it('allows every call and every state what it needs, and nothing that none of them needs', () => {
  expect(
    cases().flatMap(({ label, lines, needs }) => faultsOfRole(lines, needs).map((fault) => `${label}: ${fault}`)),
  ).toEqual([]);
});

it('has only actions, resources and condition keys of the service reference, in roles and in policies of resources', () => {
  const ofRoles = cases().flatMap(({ label, lines }) => lines.map((line) => ({ label, line })));
  const denied = variants.flatMap(({ name, template }) =>
    Object.values(denialsOf(template)).flatMap((lines) => lines.map((line) => ({ label: name, line }))),
  );
  const ofResources = variants.flatMap(({ name, template }) =>
    resourceLines(template).map((line) => ({ label: name, line })),
  );
  expect(ofResources.length).toBeGreaterThan(5 * variants.length);
  const faults = [...ofRoles, ...denied, ...ofResources].flatMap(({ label, line }) =>
    faultsOfLine(reference, line).map((fault) => `${label}: ${fault}`),
  );
  expect(faults).toEqual([]);
});

/** The statements of the policies of buckets, queues, topics and roles; those of the last have no resource. */
function resourceLines(template: Template): Line[] {
  return Object.values(resourcesOf(template)).flatMap(({ Type, Properties }) => {
    if (Type === 'AWS::IAM::Policy') return [];
    const document = (Properties?.PolicyDocument ?? Properties?.AssumeRolePolicyDocument) as
      | { Statement: object[] }
      | undefined;
    return (document?.Statement ?? []).map((statement): Line => {
      const { Action, Condition } = flattened(statement) as { Action: string; Condition?: object };
      return [[Action].flat(), [], Condition];
    });
  });
}

describe('the tables here', () => {
  it('say nothing that the reference says itself', () => {
    const named = Object.keys(AUTHORIZED_AS).filter(
      (call) => accepts(reference, call, '*') || faultsOfLine(reference, [[call], []]).length === 0,
    );
    expect(named).toEqual([]);
    const actions = Object.values(AUTHORIZED_AS).filter((action) => faultsOfLine(reference, [[action], []]).length > 0);
    expect(actions).toEqual([]);
  });

  it('say nothing that no bundle and no statement needs', () => {
    const calls = Object.values(bundles).flatMap((bundle) => bundle.calls);
    expect(UNREACHED.filter((call) => !calls.includes(call))).toEqual([]);
    const all = cases().flatMap(({ lines }) => lines);
    const needed = UNLISTED.filter((entry) => {
      const others = UNLISTED.filter((other) => other !== entry);
      return all.some((line) => faultsOfLine(reference, line, others).length > 0);
    });
    expect(needed).toEqual(UNLISTED);
  });
});
