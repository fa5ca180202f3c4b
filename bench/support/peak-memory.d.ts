/** @returns bytes */
export function peakBytes(): number;
