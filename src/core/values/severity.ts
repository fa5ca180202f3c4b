/** How much it matters that a reply fails a scorer, the gravest first. Without one, a scorer is about the task. */
export const SEVERITIES = ['harm', 'task', 'style'] as const;
export type Severity = (typeof SEVERITIES)[number];

/** Compares two severities: the more severe one comes first. */
export const severestFirst = (a: Severity = 'task', b: Severity = 'task'): number =>
  SEVERITIES.indexOf(a) - SEVERITIES.indexOf(b);

/** How bad a reply is. */
export interface Badness {
  /** Of the gravest failing scorer. */
  severity: Severity;
  /** Failing scorers, without those that fail because of another one. */
  causes: number;
}

/** Compares two replies: the more severe failure comes first, then the one with more causes. */
export const worstFirst = (a: Badness, b: Badness): number =>
  severestFirst(a.severity, b.severity) || b.causes - a.causes;
