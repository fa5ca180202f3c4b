/**
 * Returns the warning of a re-evaluation about captures without a trace. It cannot know whether a trace was deleted or never
 * written. It writes none, and counts it as traced.
 */
export function absentTraces({ traceMissing = 0 }: Record<string, number>, scorers: number): string[] {
  const absent = Math.ceil(traceMissing / Math.max(1, scorers));
  const what =
    'A person has deleted them, or no run has written them: start the same input without "reevaluate" to trace them';
  return absent === 0 ? [] : [`${absent} captures have no trace in MLflow and were not judged again. ${what}`];
}
