/** `inference-monitor doctor`: checks that the judge's model exists, until when, and what it costs, before anything is paid. */
import { BedrockClient } from '@aws-sdk/client-bedrock';
import { Command } from 'commander';
import { dotenvOfCommand } from '../../local/settings/dotenv-file.ts';
import { settingSlips } from '../../local/settings/person-settings.ts';
import { checkJudgeModel } from '../../src/judge/model-check.ts';
import { PRICE_SOURCE, ratesOf } from '../../src/judge/pricing/prices.ts';
import { defaultJudgeModel } from '../../src/settings/default-judge.ts';

function configuredModel(): string {
  return (
    process.env.BEDROCK_MODEL_ID ||
    dotenvOfCommand().BEDROCK_MODEL_ID ||
    (defaultJudgeModel(process.env.AWS_REGION) ?? '')
  );
}

async function diagnose(model: string, region: string | undefined): Promise<boolean> {
  const check = await checkJudgeModel(model, new BedrockClient(region === undefined ? {} : { region }));
  // The answer of an emulator does not apply to Bedrock.
  const asked = process.env.AWS_ENDPOINT_URL_BEDROCK ?? process.env.AWS_ENDPOINT_URL;
  console.log(
    `${check.level.padEnd(7)}  judge  ${check.message}${asked ? ` (The answer is from ${asked}, not from Bedrock.)` : ''}`,
  );
  const rates = ratesOf(model.replace(/^bedrock:\/+/, ''), { region });
  console.log(
    rates === null
      ? `warning  price  The price of ${model} is unknown: set it in JUDGE_PRICES, or set EVALUATION_BUDGET_USD=0`
      : `ok       price  ${rates.input} and ${rates.output} US dollars per million input and output tokens (${PRICE_SOURCE})`,
  );
  return check.level !== 'error';
}

/** The exit code is 1 when judging would fail. */
export function doctorCommand(): Command {
  return new Command('doctor')
    .description("check the judge's model (existence, retirement date, price), and .env for misspelled settings")
    .option('--model <id>', 'a Bedrock model id, inference profile or ARN (default: BEDROCK_MODEL_ID)')
    .option('--region <region>', 'region of Bedrock (default: AWS_REGION)')
    .action(async ({ model, region }: { model?: string; region?: string }) => {
      for (const slip of settingSlips(dotenvOfCommand())) console.log(`warning  names  ${slip}`);
      if (!(await diagnose(model ?? configuredModel(), region))) process.exitCode = 1;
    });
}
