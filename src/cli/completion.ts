/** `concord completion`: prints a script with which a shell completes commands and options. It is made of the command tree. */
import type { Command } from 'commander'
import { didYouMean } from '#kernel/nearest'
import { accept, quote, refuse } from '#kernel/refusal'
import { action, type Add } from './noun.ts'
import type { Cli } from './terminal.ts'

/** What can follow each command, by its path: " commands list" for `concord commands list`. */
type Words = readonly (readonly [path: string, words: string])[]

function wordsOf(command: Command, path = ''): Words {
  const help = command.createHelp()
  const children = help.visibleCommands(command)
  const options = help.visibleOptions(command).flatMap(({ long }) => long ?? [])
  const own = [...children.map((child) => child.name()), ...options, ...(path === '' ? [] : ['--json'])]
  const below = children.filter((child) => child.name() !== 'help')
  return [[path, own.join(' ')], ...below.flatMap((child) => wordsOf(child, `${path} ${child.name()}`))]
}

/** Quotes are safe: names of commands and options are letters, digits and hyphens. */
const casesOf = (words: Words) => words.map(([path, own]) => `    "${path}") echo "${own}" ;;\n`).join('')

const wordFunction = (words: Words) => `_concord_words() {
  case "$1" in
${casesOf(words)}  esac
}
`

const shells: Readonly<Record<string, readonly [install: string, script: (words: Words) => string]>> = {
  bash: [
    'source <(concord completion bash)   # in ~/.bashrc',
    (words) => `${wordFunction(words)}_concord() {
  local path='' word at
  for ((at = 1; at < COMP_CWORD; at++)); do
    word=\${COMP_WORDS[at]}
    case " $(_concord_words "$path") " in *" $word "*) [[ $word == -* ]] || path="$path $word" ;; esac
  done
  COMPREPLY=($(compgen -W "$(_concord_words "$path")" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _concord concord
`,
  ],
  zsh: [
    'source <(concord completion zsh)   # in ~/.zshrc, after compinit',
    (words) => `#compdef concord
${wordFunction(words)}_concord() {
  local at_path='' word
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case " $(_concord_words "$at_path") " in *" $word "*) [[ $word == -* ]] || at_path="$at_path $word" ;; esac
  done
  compadd -- \${=$(_concord_words "$at_path")} || _files
}
compdef _concord concord
`,
  ],
  fish: [
    'concord completion fish > ~/.config/fish/completions/concord.fish',
    (words) => `function __concord_words
  switch "$argv[1]"
${words.map(([path, own]) => `    case "${path}"\n      string split ' ' "${own}"\n`).join('')}  end
end
function __concord_complete
  set -l path ''
  for word in (commandline -opc)[2..]
    if not string match -q -- '-*' $word; and contains -- $word (__concord_words "$path")
      set path "$path $word"
    end
  end
  __concord_words "$path"
end
complete -c concord -a '(__concord_complete)'
`,
  ],
}

export const completion =
  (cli: Cli): Add =>
  (command) =>
    action({
      description: 'print a script with which bash, zsh or fish completes commands and options',
      args: [['<shell>', 'bash, zsh or fish']],
      examples: Object.values(shells).map(([install]) => install),
      run(shell: string) {
        const [, script] = shells[shell] ?? []
        if (!script || !command.parent)
          return refuse('cli.usage', `There is no completion for ${quote(shell)}.`, {
            path: '<shell>',
            hint: 'Use bash, zsh or fish.',
            ...didYouMean(shell, Object.keys(shells)),
          })
        cli.terminal.out(script(wordsOf(command.parent)))
        return accept(undefined)
      },
    })(command, cli)
