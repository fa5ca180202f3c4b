/** Reads everything that a stack and its servers have written, and looks for texts in it, in every encoding in which they may be. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { GetObjectCommand, paginateListObjectsV2 } from '@aws-sdk/client-s3';
import {
  DescribeExecutionCommand,
  GetExecutionHistoryCommand,
  ListExecutionsCommand,
  ListStateMachinesCommand,
} from '@aws-sdk/client-sfn';
import { callAws } from '../../src/core/aws/aws-json.ts';
import type { DeployedPipeline } from './deployed-pipeline.ts';

/** Something that was written, and where. */
export type Written = [place: string, bytes: Buffer];

const unpacked = (bytes: Buffer): Buffer => {
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) return gunzipSync(bytes);
  try {
    return bytes[0] === 0x7b ? bytes : brotliDecompressSync(bytes);
  } catch {
    return bytes;
  }
};

/** All objects of a bucket. */
export async function objectsIn({ environment }: DeployedPipeline, Bucket: string): Promise<Written[]> {
  const { s3 } = environment.clients;
  const written: Written[] = [];
  for await (const { Contents = [] } of paginateListObjectsV2({ client: s3 }, { Bucket })) {
    for (const { Key = '' } of Contents) {
      const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
      written.push([`s3://${Bucket}/${Key}`, unpacked(Buffer.from((await Body?.transformToByteArray()) ?? []))]);
    }
  }
  return written;
}

/** All items of all tables, all lines of all logs, and inputs, outputs and steps of all executions. */
export async function stateOf({ environment }: DeployedPipeline): Promise<Written[]> {
  const { lambda, sfn } = environment.clients;
  const written: Written[] = [];
  const keep = (place: string, value: unknown) => written.push([place, Buffer.from(JSON.stringify(value))]);
  const { TableNames } = await callAws<{ TableNames: string[] }>(lambda, 'dynamodb', 'ListTables', {});
  for (const TableName of TableNames) {
    keep(`table ${TableName}`, await callAws(lambda, 'dynamodb', 'Scan', { TableName }));
  }
  type Groups = { logGroups: { logGroupName: string }[] };
  const { logGroups } = await callAws<Groups>(lambda, 'logs', 'DescribeLogGroups', {});
  for (const { logGroupName } of logGroups) {
    keep(`log ${logGroupName}`, await callAws(lambda, 'logs', 'FilterLogEvents', { logGroupName }));
  }
  const { stateMachines = [] } = await sfn.send(new ListStateMachinesCommand({}));
  for (const { stateMachineArn } of stateMachines) {
    const { executions = [] } = await sfn.send(new ListExecutionsCommand({ stateMachineArn }));
    for (const { executionArn } of executions) {
      keep(`execution ${executionArn}`, await sfn.send(new DescribeExecutionCommand({ executionArn })));
      keep(`steps ${executionArn}`, await sfn.send(new GetExecutionHistoryCommand({ executionArn })));
    }
  }
  return written;
}

/** All files below a folder. */
export const filesIn = (folder: string): Written[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => [path, unpacked(readFileSync(path))]);

/** A text in base64, at each of the three places in which it may begin, without the letters that depend on its neighbours. */
const base64Forms = (text: string): string[] =>
  [0, 1, 2].map((before) => {
    const encoded = Buffer.from('x'.repeat(before) + text)
      .toString('base64')
      .replace(/=+$/, '');
    return encoded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + Buffer.byteLength(text)) * 8) / 6));
  });

const formsOf = (text: string): string[] => [
  ...new Set([text, encodeURIComponent(text), JSON.stringify(text).slice(1, -1), ...base64Forms(text)]),
];

/** Returns `text in place` for each of the texts that was written somewhere, in any case. */
export function foundIn(written: readonly Written[], texts: readonly string[]): string[] {
  const needles = texts.map((text) => ({
    text,
    forms: formsOf(text).map((form) => Buffer.from(form).toString('latin1')),
  }));
  return written.flatMap(([place, bytes]) => {
    const whole = bytes.toString('latin1');
    const lower = whole.toLowerCase();
    return needles
      .filter(({ text, forms }) => lower.includes(text.toLowerCase()) || forms.some((form) => whole.includes(form)))
      .map(({ text }) => `${text} in ${place}`);
  });
}
