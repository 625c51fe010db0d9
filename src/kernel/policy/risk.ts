/** Risk levels, and the rule that a declared risk never lowers the registered one. */
export const riskLevels = ['low', 'medium', 'high'] as const
export type RiskLevel = (typeof riskLevels)[number]

/** Returns the higher of the two: a declaration, above all of an agent, can only raise the risk. Missing: `low`. Unknown: `high`. */
export function higherRisk(registered: string | undefined, declared: string | undefined): RiskLevel {
  return riskLevels[Math.max(levelOf(registered), levelOf(declared))] ?? 'high'
}

function levelOf(risk: string | undefined): number {
  if (risk === undefined) return 0
  const level = riskLevels.findIndex((known) => known === risk)
  return level === -1 ? riskLevels.length - 1 : level
}
