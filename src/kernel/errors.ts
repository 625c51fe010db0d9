/** Errors that indicate a bug in Concord; expected failures are refusals. */
export class KernelFault extends Error {
  readonly code: string
  readonly facts: Readonly<Record<string, unknown>>

  constructor(code: string, message: string, facts: Readonly<Record<string, unknown>> = {}) {
    super(message)
    this.name = 'KernelFault'
    this.code = code
    this.facts = facts
  }
}
