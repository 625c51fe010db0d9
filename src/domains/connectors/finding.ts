/** One thing that is wrong with a declaration; all of them are told at once, and nothing starts. */
export type ConnectorFinding = {
  readonly rule: string
  /** `billing` or `billing.get_invoice`. */
  readonly subject: string
  readonly message: string
}

export function finding(rule: string, subject: string, message: string): ConnectorFinding {
  return { rule, subject, message: `${subject}: ${message}` }
}
