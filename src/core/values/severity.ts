/** How much it matters that a reply fails a scorer, worst first. A scorer without a severity concerns the task. */
export const SEVERITIES = ['harm', 'task', 'style'] as const;
export type Severity = (typeof SEVERITIES)[number];

/** Compares two severities: the more severe one comes first. */
export const severestFirst = (a: Severity = 'task', b: Severity = 'task'): number =>
  SEVERITIES.indexOf(a) - SEVERITIES.indexOf(b);

/** How bad a reply is. */
export interface Badness {
  /** Severity of the worst failing scorer. */
  severity: Severity;
  /** Number of failing scorers, without scorers that fail because of another scorer. */
  causes: number;
}

/** Compares two replies: the more severe failure comes first, then the reply with more causes. */
export const worstFirst = (a: Badness, b: Badness): number =>
  severestFirst(a.severity, b.severity) || b.causes - a.causes;
