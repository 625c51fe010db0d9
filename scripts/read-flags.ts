/** Reads the flags of a script. A mistake is one line with the nearest flag and exit code 64, never a stack trace. */
import { parseArgs, type ParseArgsConfig } from 'node:util'
import { nearest } from '#kernel/nearest'

export function readFlags<const Config extends ParseArgsConfig>(config: Config): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config)
  } catch (error) {
    console.error(explainMistake(error, Object.keys(config.options ?? {})))
    process.exit(64)
  }
}

/** The message of `parseArgs`, without its advice about dashes. */
export function explainMistake(error: unknown, known: readonly string[]): string {
  const { code, message } = error as NodeJS.ErrnoException
  if (!(error instanceof TypeError) || !code?.startsWith('ERR_PARSE_ARGS')) throw error
  const flag = code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION' ? /'--([^']+)'/.exec(message)?.[1] : undefined
  const guess = flag === undefined ? undefined : nearest(flag, known)
  const flags = known.length === 0 ? 'It takes no flags.' : `Flags: ${known.map((name) => `--${name}`).join(', ')}.`
  const what = message.replace(/\. .*$/s, '').replace(/\n.*$/s, '')
  return `${what}. ${guess === undefined ? flags : `Did you mean --${guess}?`}`
}
