/** Generates seeded random numbers: the same seed gives the same replay. Not for secrets. */

// Looked up once, because sampling calls these millions of times.
const { cos, floor, imul, log, log1p, PI, sqrt } = Math;

/** Mulberry32, with 32 bits of state: enough for schedules and samples. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** Returns a number in [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = imul(t ^ (t >>> 15), t | 1);
    t ^= t + imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** Returns an integer in [0, below). */
  below(below: number): number {
    return floor(this.next() * below);
  }

  /** Returns a value of the standard normal distribution (Box & Muller 1958). */
  normal(): number {
    return sqrt(-2 * log(1 - this.next())) * cos(2 * PI * this.next());
  }

  /** Returns the hits of `of` cases, each a hit with probability `share`, by the gaps between hits (Devroye 1986, X.4). */
  binomial(of: number, share: number): number {
    if (share > 0.5) return share >= 1 ? of : of - this.binomial(of, 1 - share);
    if (share <= 0) return 0;
    const scale = log1p(-share);
    let hits = -1;
    for (let at = 0; at <= of; hits++) at += floor(log(1 - this.next()) / scale) + 1;
    return hits;
  }
}
