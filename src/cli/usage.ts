/** A command whose usage mistakes are refusals. A refusal names the mistake, the nearest right word and the help. */
import { Command, type HelpContext } from 'commander'
import { nearest } from '#kernel/nearest'
import { type Refusal, refuse } from '#kernel/refusal'

/** Carries a refusal through the parser, which can only throw. */
export class UsageMistake extends Error {
  override name = 'UsageMistake'
  readonly refusal: Refusal
  constructor(refusal: Refusal) {
    super(refusal.reason)
    this.refusal = refusal
  }
}

export class ConcordCommand extends Command {
  override createCommand(name?: string): ConcordCommand {
    return new ConcordCommand(name)
  }

  /** Reports an unknown option before a missing one: it is usually the same option, mistyped. */
  override parseOptions(args: string[]): ReturnType<Command['parseOptions']> {
    const parsed = super.parseOptions(args)
    const [flag] = parsed.unknown
    const isLeaf = this.commands.length === 0
    const wantsHelp = parsed.unknown.some((each) => each === '-h' || each === '--help')
    if (isLeaf && flag?.startsWith('-') && !wantsHelp) this.#refuseOption(flag.replace(/=.*$/s, ''))
    return parsed
  }

  #refuseOption(flag: string): never {
    const known = [this, ...ancestorsOf(this)].flatMap(({ options }) => options.flatMap(({ long }) => long ?? []))
    const guess = flag.startsWith('--') ? nearest(flag, [...known, '--help']) : undefined
    this.error(`error: unknown option '${flag}'${guess === undefined ? '' : `\n(Did you mean ${guess}?)`}`)
  }

  /** A noun without its verb shows the help; with `--json` it is a refusal. */
  override help(context?: HelpContext | ((text: string) => string)): never {
    const root = [this, ...ancestorsOf(this)].at(-1)
    const isMistake = typeof context === 'object' && context.error
    if (isMistake && root?.opts()['json'] === true) this.error(`'${this.name()}' needs a command after it.`)
    if (typeof context === 'function') return super.help(context)
    return super.help(context)
  }

  override error(message: string): never {
    const [said = '', guess = movedTo(message)] = message.replace(/^error: /, '').split('\n')
    const path = [this, ...ancestorsOf(this)].map((command) => command.name()).toReversed()
    const help = `\`${path.join(' ')} --help\` shows how.`
    const hint = guess === undefined ? help : `${guess.replace(/^\(|\)$/g, '')} ${help}`
    throw new UsageMistake(refuse('cli.usage', sentenceOf(said), { hint }))
  }
}

/** The commands of version 0.1 that have another name now. */
const moved: Readonly<Record<string, string>> = { 'command-schedules': 'schedules' }

function movedTo(message: string): string | undefined {
  const name = moved[/unknown command '(.+)'/.exec(message)?.[1] ?? '']
  return name === undefined ? undefined : `Did you mean ${name}?`
}

/** Messages of the parser begin in lower case and have no full stop. */
function sentenceOf(message: string): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}${/[.?!]$/.test(message) ? '' : '.'}`
}

function ancestorsOf(command: Command): Command[] {
  return command.parent ? [command.parent, ...ancestorsOf(command.parent)] : []
}
