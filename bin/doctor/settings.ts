/** Checks the settings of the stack, and passes on those that are valid. */
import { doubtsAbout } from '../../lib/settings/checks.ts';
import { parseSettings, REQUIRED_SETTING_NAMES, SETTING_NAMES } from '../../lib/settings/settings.ts';
import { slips } from '../../lib/settings/slips.ts';
import { withDefaultJudge } from '../../src/settings/default-judge.ts';
import { dotenvOfCommand } from '../../src/settings/dotenv-file.ts';
import { type CheckedSettings, settingsSchema } from '../../src/settings/schema.ts';
import { readEach } from '../../src/settings/variables.ts';
import { type Finding, finding } from './finding.ts';

interface ReadSettings {
  /** The valid ones, with defaults. */
  settings: Partial<CheckedSettings>;
  findings: Finding[];
}

/** Reads the settings as the stack does. @param region `undefined` if nobody has said it. @param flags take precedence over the environment and `.env` */
export function checkSettingsFor(region: string | undefined, flags: Record<string, string | undefined>): ReadSettings {
  const dotenv = dotenvOfCommand();
  const given = [dotenv, process.env, flags].flatMap((variables) =>
    SETTING_NAMES.flatMap((name) => (variables[name]?.trim() ? [[name, variables[name]] as const] : [])),
  );
  const variables = { ...Object.fromEntries(given), CDK_DEFAULT_REGION: region };
  return {
    settings: readEach(settingsSchema, withDefaultJudge(variables, region)).values,
    findings: [
      ...slips(SETTING_NAMES, dotenv, process.env).map((slip) => finding('warning', 'names', slip)),
      ...faultsOf(variables),
    ],
  };
}

function faultsOf(variables: Readonly<Record<string, string | undefined>>): Finding[] {
  if (REQUIRED_SETTING_NAMES.every((name) => variables[name] === undefined)) {
    const message = `None of ${REQUIRED_SETTING_NAMES.join(', ')} is set: copy .env.example to .env and fill them in. The checks that need them are left out.`;
    return [finding('warning', 'settings', message)];
  }
  try {
    const doubts = doubtsAbout(parseSettings(variables));
    if (doubts.length > 0) return doubts.map((doubt) => finding('warning', 'settings', doubt));
    return [finding('ok', 'settings', 'All required settings are set, and all are valid.')];
  } catch (error) {
    if ((error as Error).name !== 'InvalidSettings') throw error;
    const [, ...lines] = (error as Error).message.split('\n');
    return lines.map((line) => finding('error', 'settings', line.trim()));
  }
}
