/** One thing that is wrong with a catalog; all of them are told at once, and the service does not start. */
import { type Decision, refuse } from '#kernel/refusal'

export type CatalogFinding = {
  readonly rule: string
  /** The definition that is wrong. */
  readonly subject: string
  readonly message: string
}

export function finding(rule: string, subject: string, message: string): CatalogFinding {
  return { rule, subject, message }
}

export function refuseFindings(findings: readonly CatalogFinding[]): Decision<never> {
  const count = findings.length === 1 ? 'one thing is' : `${findings.length} things are`
  const reason = `${count} wrong with the catalog: ${findings.map(({ message }) => message).join('; ')}`
  return refuse('commands.catalog.invalid', reason, { facts: { findings } })
}
