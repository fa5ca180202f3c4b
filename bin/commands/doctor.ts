/** `inference-monitor doctor`: checks what a deployment needs, and the deployed stack. It changes nothing and pays nothing. */
import { Command } from 'commander';
import { EXIT } from '../cli/exit-codes.ts';
import { jsonOption, terminal, writeJson } from '../cli/output.ts';
import { stackOption } from '../cli/stack.ts';
import { type DoctorFlags, diagnose } from '../doctor/diagnose.ts';
import { diagnosisText } from '../doctor/text.ts';

const HELP = `
Each line has what to do about it. Levels: ok; warning: the stack may fail or miss captures; error: it does;
unknown: this could not be asked from here. The exit code is 1 if there is an error.

Examples:
  inference-monitor doctor
  inference-monitor doctor --model eu.anthropic.claude-haiku-4-5-20251001-v1:0 --region eu-west-1
  inference-monitor doctor --json | jq '.findings[] | select(.level == "error")'`;

export function doctorCommand(): Command {
  return new Command('doctor')
    .option('--model <id>', 'a Bedrock model id, inference profile or ARN (default: BEDROCK_MODEL_ID)')
    .option('--region <region>', 'region of the stack (default: AWS_REGION)')
    .addOption(stackOption())
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action(async ({ json, ...flags }: DoctorFlags & { json?: boolean }) => {
      const diagnosis = await diagnose(flags);
      if (json) writeJson('doctor', diagnosis);
      else process.stdout.write(diagnosisText(diagnosis, terminal()));
      if (!diagnosis.healthy) process.exitCode = EXIT.found;
    });
}
