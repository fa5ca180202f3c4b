/** How much it matters that a reply fails a scorer, the gravest first. Without one, a scorer is about the task. */
export const GRAVITIES = ['harm', 'task', 'style'] as const;
export type Gravity = (typeof GRAVITIES)[number];

/** Compares two gravities: the graver one comes first. */
export const gravestFirst = (a: Gravity = 'task', b: Gravity = 'task'): number =>
  GRAVITIES.indexOf(a) - GRAVITIES.indexOf(b);

/** How bad a reply is. */
export interface Badness {
  /** Of the gravest failing scorer. */
  gravity: Gravity;
  /** Failing scorers, without those that fail because of another one. */
  causes: number;
}

/** Compares two replies: the graver failure comes first, then the one with more causes. */
export const worstFirst = (a: Partial<Badness>, b: Partial<Badness>): number =>
  gravestFirst(a.gravity, b.gravity) || (b.causes ?? 0) - (a.causes ?? 0);
