/** A judged pair costs about a cent with the default model: enough for some 2,000 pairs. */
export const DEFAULT_JUDGE_BUDGET_USD = 20;
