/** The actors of decisions that no person makes. */
export const bySystem = { actor: 'system', kind: 'system' } as const
export const byWorker = { actor: 'worker', kind: 'worker' } as const
