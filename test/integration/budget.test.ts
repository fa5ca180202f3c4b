/** The judge's budget and the gate with DynamoDB's wire protocol, and with real processes that race and crash. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { CreateTableCommand, DynamoDBClient, GetItemCommand } from '@aws-sdk/client-dynamodb';
import { projectPath } from '../../local/project-root.ts';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { budgetTable } from '../../src/core/contract/names.ts';
import { estimateTokens } from '../../src/judge/prompt/tokens.ts';
import { isJudgeScorer, scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { LEASE_MS } from '../../src/limits/budget/account.ts';
import { type BudgetOptions, createBudget, dayScope, runScope } from '../../src/limits/budget/leased-budget.ts';
import { nextDay, TableCircuit } from '../../src/limits/circuit.ts';
import { TablePace } from '../../src/limits/pace.ts';
import { TableSeats } from '../../src/limits/seats.ts';
import { BudgetTable } from '../../src/limits/table.ts';
import { priceOf, scriptedJudge, told } from '../doubles/scripted-judge.ts';
import { readSpending } from '../helpers/spending.ts';
import { chatCapture } from '../unit/judge/captures.ts';

const RACERS = 4;
const CALL_MAX_NANOS = 20_000_000;

let ministack: MiniStack;
let client: DynamoDBClient;
let table: string;
let requests = 0;

beforeAll(async () => {
  ministack = await startMiniStack();
  client = new DynamoDBClient({
    endpoint: ministack.url,
    region: ministack.region,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  });
  client.middlewareStack.add(
    (next) => (args) => {
      requests += 1;
      return next(args);
    },
    { step: 'finalizeRequest' },
  );
});

beforeEach(async () => {
  table = `budget-${randomUUID()}`;
  await client.send(
    new CreateTableCommand({
      TableName: table,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{ AttributeName: budgetTable.partitionKey, AttributeType: 'S' }],
      KeySchema: [{ AttributeName: budgetTable.partitionKey, KeyType: 'HASH' }],
    }),
  );
});

afterAll(async () => {
  client?.destroy();
  await ministack?.stop();
});

const noon = Date.UTC(2026, 10, 20, 12);
/** Tests that advance the time start at noon, so that midnight does not fall between a race and its sums. */
const AHEAD_MS = noon - Date.now();
const clock = (): number => Date.now() + AHEAD_MS;
const budget = (options: Partial<BudgetOptions> = {}) =>
  createBudget({ client, table, dailyUsd: 1, run: 'a-run', now: () => noon, ...options });
const spending = (scope = dayScope(noon)) => readSpending({ client, table }, scope);
const item = async (scope: string) =>
  (await client.send(new GetItemCommand({ TableName: table, Key: { [budgetTable.partitionKey]: { S: scope } } }))).Item;

async function reserved(from: ReturnType<typeof budget>, usd: number) {
  const reservation = await from.reserve(usd);
  if (reservation === 'held') throw new Error('held');
  return reservation;
}

interface Racer {
  child: ChildProcess;
  /** Returns the next line that it prints. */
  line(): Promise<string>;
  ended: Promise<number | null>;
}

function startRacer(...args: string[]): Racer {
  const script = projectPath('test', 'helpers', 'budget-racer.ts');
  const child = spawn(process.execPath, [script, ministack.url, table, String(AHEAD_MS), ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout as Readable })[Symbol.asyncIterator]();
  const ended = new Promise<number | null>((resolve) => child.on('close', (code) => resolve(code)));
  return { child, line: async () => String((await lines.next()).value), ended };
}

/** Runs processes that start at the same time. @returns the payments of each, in nanodollars */
async function race(...args: string[]): Promise<number[]> {
  const racers = Array.from({ length: RACERS }, () => startRacer(...args));
  for (const racer of racers) expect(await racer.line()).toBe('ready');
  for (const { child } of racers) child.stdin?.write('go\n');
  const results = await Promise.all(racers.map(({ line }) => line()));
  expect(await Promise.all(racers.map(({ ended }) => ended))).toEqual(racers.map(() => 0));
  return results.map((text) => (JSON.parse(text) as { paidNanos: number }).paidNanos);
}

const total = (amounts: number[]): number => amounts.reduce((sum, amount) => sum + amount, 0);

test('does not overspend one dollar in a race of four processes, and leaves little unused', async () => {
  const amounts = await race('race', '1', 'none', '6');
  const paid = total(amounts);
  console.info(`paid ${paid / 1e9} of 1 dollar: ${amounts.map((nanos) => (nanos / 1e9).toFixed(3)).join(' + ')}`);
  expect(paid).toBeLessThanOrEqual(1e9);
  expect(paid).toBeGreaterThan(1e9 - RACERS * CALL_MAX_NANOS);
  // The table agrees with the processes, and all leases were given back.
  const scope = dayScope(noon);
  const { spentUsd, committedUsd } = await spending(scope);
  expect(Math.round(spentUsd * 1e9)).toBe(paid);
  expect(Math.round(committedUsd * 1e9)).toBe(paid);
  const { leases } = (await item(scope)) ?? {};
  expect(Number(leases?.N)).toBeGreaterThanOrEqual(RACERS);
  for (let number = 1; number <= Number(leases?.N); number += 1) {
    expect(await item(`${scope}#lease#${number}`)).not.toHaveProperty('amount');
  }
});

test('keeps a daily and a run cap in a race of four processes', async () => {
  const paid = total(await race('small-run', '5', '0.5', '4'));
  expect(paid).toBeLessThanOrEqual(0.5e9);
  expect(paid).toBeGreaterThan(0.5e9 - RACERS * CALL_MAX_NANOS);
  for (const scope of [dayScope(noon), runScope('small-run')]) {
    const { spentUsd, committedUsd } = await spending(scope);
    expect([Math.round(spentUsd * 1e9), Math.round(committedUsd * 1e9)]).toEqual([paid, paid]);
  }
});

test.each(['prose', 'cut'] as const)(
  'keeps the cap round by round in five Lambdas whose judge answers in %s',
  async (kind) => {
    const scorers = scorersFor().filter(isJudgeScorer);
    let paid = 0;
    const { judge } = scriptedJudge((ask, record) => {
      // A fifth more tokens than estimated, and an answer of maximum length.
      const texts = [ask.prompt.system, record, JSON.stringify(ask.schema)];
      const inputTokens = Math.round(1.2 * texts.reduce((sum, text) => sum + estimateTokens(text), 0));
      const usage = { inputTokens, outputTokens: ask.maxTokens };
      paid += priceOf(usage);
      return kind === 'cut' ? told('{"safety": {"ra', { stop: 'cut', usage }) : told('It is fine.', { usage });
    });
    const cap = 2;
    const lambdas = Array.from({ length: 5 }, () => budget({ dailyUsd: cap }));
    const captures = lambdas.flatMap((limit) => Array.from({ length: 48 }, () => ({ limit })));
    const ends = await Promise.allSettled(
      captures.map((money) => judge.judge(chatCapture(), scorers, undefined, money)),
    );
    await Promise.all(lambdas.map((limit) => limit.close()));
    const held = ends.filter((end) => end.status === 'rejected').map(({ reason }) => (reason as Error).name);
    expect(new Set(held)).toEqual(new Set(['JudgeHeld']));
    expect(paid).toBeLessThanOrEqual(cap);
    expect(paid).toBeGreaterThan(0.8 * cap);
    const { spentUsd, committedUsd } = await spending();
    expect(spentUsd).toBeCloseTo(paid, 6);
    expect(committedUsd).toBeCloseTo(paid, 6);
  },
);

test('returns the reservation of a killed process when its lease expires, and not before', async () => {
  const racer = startRacer('dies', '0', '0.02', '1', 'hang');
  expect(await racer.line()).toBe('ready');
  racer.child.stdin?.write('go\n');
  expect(await racer.line()).toBe('reserved');
  racer.child.kill('SIGKILL');
  await racer.ended;
  const cap = { dailyUsd: 0, runUsd: 0.02, run: 'dies' };
  expect(await budget({ ...cap, now: clock }).reserve(0.02)).toBe('held');
  const survivor = budget({ ...cap, now: () => clock() + LEASE_MS });
  await (await reserved(survivor, 0.02)).settle(0.015);
  await survivor.close();
  expect(await spending(runScope('dies'))).toEqual({ spentUsd: 0.015, committedUsd: 0.015 });
});

test('reserves a call at its maximum and books its cost', async () => {
  const one = budget();
  const reservation = await reserved(one, 0.4);
  expect((await spending()).committedUsd).toBeGreaterThanOrEqual(0.4);
  await reservation.settle(0.1);
  await one.close();
  expect(await spending()).toEqual({ spentUsd: 0.1, committedUsd: 0.1 });
});

test('gives waiting calls the money that calls in flight return', async () => {
  const one = budget({ dailyUsd: 0.1 });
  const first = await reserved(one, 0.1);
  const second = one.reserve(0.06);
  await first.settle(0.03);
  expect(await second).not.toBe('held');
  const third = one.reserve(0.06);
  const held = await Promise.race([third, new Promise((resolve) => setTimeout(() => resolve('waits'), 200))]);
  expect(held).toBe('waits');
  await ((await second) as { settle(usd: number): Promise<void> }).settle(0.06);
  expect(await third).toBe('held');
  await one.close();
  expect((await spending()).spentUsd).toBeCloseTo(0.09, 9);
});

test('makes few requests while most of the budget is left', async () => {
  const one = budget({ dailyUsd: 1000 });
  requests = 0;
  for (let call = 0; call < 200; call += 1) await (await reserved(one, 0.02)).settle(0.005);
  await one.close();
  // 200 calls of 0.005 cost one dollar. The lease is 64 × 0.02 = 1.28: one read, one lease, one end.
  expect(requests).toBeLessThanOrEqual(6);
  expect((await spending()).spentUsd).toBeCloseTo(1, 9);
});

test('books a call that cost more than its maximum in full', async () => {
  const one = budget({ dailyUsd: 0.1 });
  await (await reserved(one, 0.1)).settle(0.13);
  expect(await one.reserve(0.01)).toBe('held');
  await one.close();
  expect(await spending()).toEqual({ spentUsd: 0.13, committedUsd: 0.13 });
});

test('books calls in flight at their maximum, once, when the budget is closed', async () => {
  const one = budget();
  const reservation = await reserved(one, 0.2);
  await one.close();
  await reservation.settle(0.05);
  expect(await spending()).toEqual({ spentUsd: 0.2, committedUsd: 0.2 });
});

test('starts a new day at midnight, and books earlier reservations on the old one', async () => {
  let now = Date.UTC(2026, 10, 20, 23, 59, 59);
  const one = budget({ dailyUsd: 0.1, now: () => now });
  const before = await reserved(one, 0.1);
  now = Date.UTC(2026, 10, 21, 0, 0, 1);
  await (await reserved(one, 0.1)).settle(0.07);
  await before.settle(0.05);
  await one.close();
  expect((await spending('day#2026-11-20')).spentUsd).toBe(0.05);
  expect((await spending('day#2026-11-21')).spentUsd).toBe(0.07);
});

test('books the payments of a process that was suspended past its lease, and lets it continue', async () => {
  let now = noon;
  const slow = budget({ dailyUsd: 0.1, now: () => now });
  const reservation = await reserved(slow, 0.08);
  now += LEASE_MS + 1;
  const other = budget({ dailyUsd: 0.1, now: () => now });
  await (await reserved(other, 0.06)).settle(0.02);
  await other.close();
  await reservation.settle(0.05);
  await (await reserved(slow, 0.02)).settle(0.01);
  expect(await slow.reserve(0.05)).toBe('held');
  await slow.close();
  const { spentUsd, committedUsd } = await spending();
  expect([spentUsd, committedUsd].map((usd) => Math.round(usd * 1e9))).toEqual([80_000_000, 80_000_000]);
});

test('does not repeat a write whose reply was lost', async () => {
  const one = budget();
  let sent = 0;
  // The SDK repeats a request if the connection breaks after the server has processed it.
  client.middlewareStack.add(
    (next) => async (args) => {
      const result = await next(args);
      sent += 1;
      if (sent === 2 || sent === 4)
        throw Object.assign(new Error('socket hang up'), { name: 'TimeoutError', code: 'ECONNRESET' });
      return result;
    },
    { step: 'deserialize', name: 'loseReplies', priority: 'low' },
  );
  try {
    await (await reserved(one, 0.3)).settle(0.1);
    await one.close();
  } finally {
    client.middlewareStack.remove('loseReplies');
  }
  expect(sent).toBeGreaterThanOrEqual(4);
  expect(await spending()).toEqual({ spentUsd: 0.1, committedUsd: 0.1 });
});

describe('a deposit', () => {
  const NAME = 'batch/a-run/0';

  async function deposited(amounts: number[], options: Partial<BudgetOptions> = {}) {
    const one = budget(options);
    for (const usd of amounts) expect(await one.setAside(usd)).toBe(true);
    return one.closeWithDeposit(NAME);
  }

  test('keeps the reserved money, and gives the unpaid part back once', async () => {
    const deposit = await deposited([0.2, 0.3], { runUsd: 0.8 });
    expect(deposit).toEqual({ name: NAME, scopes: [runScope('a-run'), dayScope(noon)] });
    for (const scope of deposit.scopes) expect(await spending(scope)).toEqual({ spentUsd: 0, committedUsd: 0.5 });
    // To others, the deposit counts like paid money.
    expect(await budget().reserve(0.51)).toBe('held');
    expect(await budget().settleDeposit(deposit, 0.1)).toBe(true);
    expect(await budget().settleDeposit(deposit, 0.1)).toBe(false);
    for (const scope of deposit.scopes) expect(await spending(scope)).toEqual({ spentUsd: 0.1, committedUsd: 0.1 });
  });

  test('is booked once if several processes settle it concurrently', async () => {
    const deposit = await deposited([0.4]);
    const results = await Promise.all(Array.from({ length: 6 }, () => budget().settleDeposit(deposit, 0.25)));
    expect(results.filter(Boolean)).toHaveLength(1);
    expect(await spending()).toEqual({ spentUsd: 0.25, committedUsd: 0.25 });
  });

  test('replaces the deposit of an earlier attempt', async () => {
    await deposited([0.7]);
    const again = budget();
    await again.dropDeposit(NAME);
    await again.setAside(0.6);
    await again.closeWithDeposit(NAME);
    expect(await spending()).toEqual({ spentUsd: 0, committedUsd: 0.6 });
  });

  test('is settled on the day on which it was created', async () => {
    const deposit = await deposited([0.2]);
    const tomorrow = budget({ now: () => noon + 24 * 3_600_000 });
    await tomorrow.settleDeposit(deposit, 0.05);
    expect(await spending()).toEqual({ spentUsd: 0.05, committedUsd: 0.05 });
    expect(await spending(dayScope(noon + 24 * 3_600_000))).toEqual({ spentUsd: 0, committedUsd: 0 });
  });

  test('outlives leases, and is not given back by processes that need room', async () => {
    await deposited([0.9]);
    expect(await budget({ now: () => noon + 3 * LEASE_MS }).reserve(0.2)).toBe('held');
    expect((await spending()).committedUsd).toBe(0.9);
  });

  test('is created once if the reply to its write is lost', async () => {
    const one = budget();
    await one.setAside(0.3);
    let lose = true;
    client.middlewareStack.add(
      (next) => async (args) => {
        const result = await next(args);
        if (!lose) return result;
        lose = false;
        throw Object.assign(new Error('socket hang up'), { name: 'TimeoutError', code: 'ECONNRESET' });
      },
      { step: 'deserialize', name: 'loseReplies', priority: 'low' },
    );
    try {
      await one.closeWithDeposit(NAME);
    } finally {
      client.middlewareStack.remove('loseReplies');
    }
    expect(lose).toBe(false);
    expect(await spending()).toEqual({ spentUsd: 0, committedUsd: 0.3 });
  });

  test('does not exceed the cap, without waiting', async () => {
    const one = budget({ dailyUsd: 0.1 });
    expect(await one.setAside(0.06)).toBe(true);
    expect(await one.setAside(0.06)).toBe(false);
    expect(await one.setAside(0.04)).toBe(true);
    await one.closeWithDeposit(NAME);
    expect(await spending()).toEqual({ spentUsd: 0, committedUsd: 0.1 });
  });

  test('needs no space in the account’s item, while others write to it', async () => {
    const names = Array.from({ length: 30 }, (_, chunk) => `batch/a-run-with-a-name-as-long-as-it-may-be/${chunk}`);
    const caller = budget();
    const calling = (async () => {
      for (let call = 0; call < 30; call += 1) await (await reserved(caller, 0.01)).settle(0.001);
    })();
    const deposits = await Promise.all(
      names.map(async (name) => {
        const one = budget();
        expect(await one.setAside(0.01)).toBe(true);
        return one.closeWithDeposit(name);
      }),
    );
    await calling;
    await caller.close();
    expect(await spending()).toEqual({ spentUsd: 0.03, committedUsd: 0.33 });
    // What remains in the account are numbers and marks, however many leases and deposits there were.
    expect(
      Object.keys((await item(dayScope(noon))) ?? {})
        .filter((name) => !/^m\d+$/.test(name))
        .sort(),
    ).toEqual(['committed', budgetTable.partitionKey, 'spent', 'leases', budgetTable.ttlAttribute].sort());
    expect(await Promise.all(deposits.map((deposit) => budget().settleDeposit(deposit, 0.002)))).not.toContain(false);
    expect(await spending()).toEqual({ spentUsd: 0.09, committedUsd: 0.09 });
  });

  test('is not created if nothing was reserved', async () => {
    expect(await deposited([])).toEqual({ name: NAME, scopes: [] });
  });
});

describe('the gate', () => {
  const gateTable = () => new BudgetTable(client, table);

  test('lets in as many functions as there are seats, and shares the calls among them', async () => {
    const limits = Array.from({ length: 9 }, () => ({ active: 0, max: 32 }));
    const seats = limits.map((limit) => new TableSeats({ table: gateTable(), functions: 6, calls: 40, limit }));
    const entered = await Promise.all(seats.map((each) => each.enter()));
    expect(entered.filter((each) => each === 'in')).toHaveLength(6);
    const inside = seats.filter((_, index) => entered[index] === 'in');
    const sum = limits.reduce((total, { max }, index) => total + (entered[index] === 'in' ? max : 0), 0);
    expect(sum).toBeLessThanOrEqual(40);
    expect(sum).toBeGreaterThan(0);
    await Promise.all(inside.map((each) => each.leave()));
    expect(await seats[0]?.enter()).toBe('in');
    await seats[0]?.leave();
  });

  test('keeps four functions together to a pace', async () => {
    const until = Date.now() + 3000;
    const counts = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const pace = new TablePace({ table: gateTable(), name: 'mlflow', perSecond: 40, keepMs: 150 });
        let count = 0;
        for (; Date.now() < until; count += 1) await pace.take(1);
        return count;
      }),
    );
    // The last request of each function may wait beyond the end.
    expect(total(counts)).toBeLessThanOrEqual(3 * 40 + 4 + 40);
    expect(total(counts)).toBeGreaterThan(60);
  });

  test('opens the circuit for all, and one call tries after its end', async () => {
    let now = noon;
    const at = { now: () => now, sleep: async () => {} };
    const circuits = Array.from({ length: 5 }, () => new TableCircuit(gateTable(), 'judge', at));
    const checks = () => Promise.all(circuits.map((circuit) => circuit.check()));
    await circuits[0]?.report('perDay');
    now += 5000;
    expect(new Set(await checks())).toEqual(new Set([nextDay(noon)]));
    now = nextDay(noon) + 1;
    const trying = await checks();
    expect(trying.filter((open) => open === undefined)).toHaveLength(1);
    await circuits[trying.indexOf(undefined)]?.report('answered');
    now += 5000;
    expect(new Set(await checks())).toEqual(new Set([undefined]));
  });
});

test('makes no request for a cap of 0, which means no cap', async () => {
  requests = 0;
  const one = budget({ dailyUsd: 0 });
  await (await reserved(one, 1e6)).settle(5);
  await one.close();
  expect(requests).toBe(0);
});

test('throws a named error for a missing table', async () => {
  await expect(budget({ table: 'not-there' }).reserve(0.1)).rejects.toMatchObject({
    name: 'BudgetRefused',
    message: expect.stringContaining('table not-there'),
  });
});
