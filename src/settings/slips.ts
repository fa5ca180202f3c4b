/** Variables that look like settings of this stack and are none: most likely slips of the pen. */

/** Our names begin so; whatever else does in `.env` was meant for this stack. */
const OURS =
  /^(STACK_|MLFLOW_|SAGEMAKER_ENDPOINT|SAGEMAKER_MLFLOW|DATA_CAPTURE_|BEDROCK_|EVALUATION_|JUDGE_|LAMBDA_|REPLAY_)/;

/** Read by the command line and by MLflow's own client, where they are set for them: see `.env.example`. */
const OF_THE_COMMAND_LINE: Readonly<Record<string, string>> = {
  MLFLOW_TRACKING_USERNAME: 'MLFLOW_SECRET_ARN',
  MLFLOW_TRACKING_PASSWORD: 'MLFLOW_SECRET_ARN',
  MLFLOW_TRACKING_TOKEN: 'MLFLOW_SECRET_ARN',
  JUDGE_API_KEY: 'JUDGE_SECRET_ARN',
};

/** Two letters swapped, one missing and one too many: more would call strangers slips. */
const MAX_SLIPS = 2;

/**
 * A sentence for each variable that is not read.
 *
 * @param names the settings' own
 * @param dotenv, environment the variables; in the environment, which belongs to all programs, only what is a slip of one
 *   of our names counts
 */
export function slips(
  names: readonly string[],
  dotenv: Readonly<Record<string, string | undefined>>,
  environment: Readonly<Record<string, string | undefined>>,
): string[] {
  const given = (variables: Readonly<Record<string, string | undefined>>): string[] =>
    Object.keys(variables).filter((name) => variables[name] && !names.includes(name));
  const found: string[] = [];
  for (const name of given(dotenv)) {
    const instead = OF_THE_COMMAND_LINE[name];
    if (instead !== undefined) {
      if (!dotenv[instead] && !environment[instead]) {
        found.push(
          `.env sets ${name}, which the command line reads and the stack does not; the functions need ${instead}`,
        );
      }
      continue;
    }
    const near = nearest(names, name);
    if (near !== undefined || OURS.test(name))
      found.push(`.env sets ${name}, which is no setting of this stack${meant(near)}`);
  }
  for (const name of given(environment)) {
    const near = Object.hasOwn(dotenv, name) || name in OF_THE_COMMAND_LINE ? undefined : nearest(names, name);
    if (near !== undefined) found.push(`The environment sets ${name}, which is no setting of this stack${meant(near)}`);
  }
  return found;
}

const meant = (name: string | undefined): string => (name === undefined ? '; see .env.example' : `; is ${name} meant?`);

function nearest(names: readonly string[], name: string): string | undefined {
  const distances = names.map((each) => ({ each, distance: editDistance(each, name.toUpperCase()) }));
  const best = distances.toSorted((a, b) => a.distance - b.distance)[0];
  return best !== undefined && best.distance <= MAX_SLIPS ? best.each : undefined;
}

/** Insertions, deletions, replacements and swaps of neighbours that lead from one text to the other. */
function editDistance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  const at = (row: number, column: number): number => rows[row]?.[column] ?? 0;
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row[j] = Math.min(at(i - 1, j) + 1, (row[j - 1] ?? 0) + 1, replaced);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        row[j] = Math.min(row[j] ?? 0, at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.length, b.length);
}
