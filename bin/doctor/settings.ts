/** Checks the settings of the stack, and passes on the valid ones. */
import { doubtsAbout } from '../../lib/settings/checks.ts';
import { examineSettings, REQUIRED_SETTING_NAMES, SETTING_NAMES, slips } from '../../lib/settings/settings.ts';
import { dotenvOfCommand } from '../../src/core/settings/dotenv-file.ts';
import { type Settings, settingsSchema } from '../../src/core/settings/schema.ts';
import { readEach, withDefaultJudge } from '../../src/core/settings/variables.ts';
import { broken, type Found, ok, under, warning } from './finding.ts';

export type ReadSettings = ReturnType<typeof checkSettingsFor>;
type Variables = Readonly<Record<string, string | undefined>>;

const OF_STACK = 'What the stack is deployed with is checked, not the settings of the environment and of .env.';

/**
 * Reads the settings as the stack does.
 *
 * @param region `undefined` if it is not given
 * @param flags take precedence over the environment and `.env`
 * @param deployed settings of a stack's functions, which replace the environment and `.env`
 */
export function checkSettingsFor(region: string | undefined, flags: Variables, deployed?: Variables) {
  const dotenv = dotenvOfCommand();
  const given = [...(deployed ? [deployed] : [dotenv, process.env]), flags].flatMap((variables) =>
    SETTING_NAMES.flatMap((name) => (variables[name]?.trim() ? [[name, variables[name]] as const] : [])),
  );
  const variables = { ...Object.fromEntries(given), CDK_DEFAULT_REGION: region };
  const { complete, found } = deployed ? { complete: undefined, found: ok(OF_STACK) } : faultsOf(variables);
  const misspelt = slips(SETTING_NAMES, dotenv, process.env).map((slip) => {
    const [message = '', repair] = slip.split('; ');
    return warning(`${message}.`, repair);
  });
  return {
    /** The valid settings, with defaults. */
    settings: readEach(settingsSchema, withDefaultJudge(variables, region)).values,
    /** The settings in the stack's form, if all are valid. */
    complete,
    findings: [...under('names', misspelt), ...under('settings', found)],
  };
}

function faultsOf(variables: Variables): { complete?: Settings; found: Found } {
  if (REQUIRED_SETTING_NAMES.every((name) => variables[name] === undefined)) {
    const message = `None of ${REQUIRED_SETTING_NAMES.join(', ')} is set. The checks that need them are left out.`;
    return { found: warning(message, 'inference-monitor init writes .env') };
  }
  const { settings: complete, wrong } = examineSettings(variables);
  const faults = wrong.map(({ name, got, expected }) => broken(`${name}: got ${got}.`, `expected: ${expected}`));
  if (complete === undefined) return { found: faults };
  const doubts = doubtsAbout(complete).map((doubt) => warning(`${doubt}.`));
  return { complete, found: doubts.length > 0 ? doubts : ok('All required settings are set, and all are valid.') };
}
