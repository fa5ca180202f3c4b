/** The first row of a reply in CSV: a header or a prediction, whatever the request was and with or without CSV_HEADER. */
import tables from './headers.json' with { type: 'json' };
import { rowsOf } from './rows-of.ts';

/** @param wanted the predictions, or words of the note that says why none is kept */
function check(requests: readonly unknown[], reply: unknown, csvHeader: boolean, wanted: object | string): void {
  for (const request of requests) {
    const { found, notes } = rowsOf(request ?? undefined, reply, { csvHeader });
    if (typeof wanted === 'object') expect({ request, found }).toEqual({ request, found: wanted });
    else expect({ request, found, notes }).toEqual({ request, found: {}, notes: expect.stringContaining(wanted) });
  }
}

const { known, unknown } = tables;
const all = ['age\n30\n40', ...known, ...unknown];

test.each(tables.headers as [string, object][])('%j begins with a header', (reply, kept) => {
  check(all, reply, true, kept);
  check(known, reply, false, '2 inputs but 3 outputs');
  check(['age\n30\n40', ...unknown], reply, false, 'begins with a header, and CSV_HEADER is not set');
});

test.each(tables.words as [string, object, object][])('%j may begin with one', (reply, kept, withoutSetting) => {
  check(all, reply, true, kept);
  check(unknown, reply, false, withoutSetting);
});

test.each(tables.others as [string, string | null, boolean, object | string][])(
  '%j in reply to %j with CSV_HEADER=%s',
  (reply, request, csvHeader, wanted) => check([request], reply, csvHeader, wanted),
);

test.each(tables.json as [object, object][])('the JSON %j', (reply, wanted) => {
  check(unknown.slice(1), reply, false, wanted);
});

test.each(['text/plain', 'text/html', 'application/x-own'])(
  'behind numeric rows, a sentence in %s is no class',
  (type) => {
    const rows = [{ instances: [[30, 2]] }, { features: [1, 2] }, [{ age: 30, job: 'clerk' }]];
    for (const request of ['30,2', 'x,2', ...rows]) {
      for (const reply of tables.sentences)
        check([request], `${type}|${reply}`, false, 'the reply is a text, not a class');
      for (const reply of tables.labels) expect(Object.keys(rowsOf(request, `${type}|${reply}`).found)).toEqual(['']);
    }
  },
);

test('a sentence in CSV is no class, unless the request has words without a number', () => {
  check([...unknown.slice(0, 5), '30,2'], 'Not ready yet.', false, 'the reply is a text, not a class');
  check(['hallo'], 'It is late.', false, { '': { value: 'It is late.' } });
  // A question and its answer are texts.
  check(['"Is the bus late today?",2'], 'It is late.', false, { '': { text: expect.any(Array) } });
});
