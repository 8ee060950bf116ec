# Completions of island-metrics for bash: source <(island-metrics completions bash)
_island_metrics() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
    local command= words= flags= again= kind= at=1 found
    COMPREPLY=()
    # bash splits --flag=value into three words.
    if [[ $word == = ]]; then
        word=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD-2]}
    fi
    while ((at < COMP_CWORD)); do
        case "${command:+$command }${COMP_WORDS[at]}" in
            'serve' | 'publish' | 'check' | 'keys' | 'keys issue' | 'keys list' | 'keys revoke' | 'keys restore' | 'synth' | 'collect' | 'healthcheck' | 'openapi' | 'completions' | 'man') command=${command:+$command }${COMP_WORDS[at]} ;;
            *) break ;;
        esac
        ((at++))
    done
    case $command in
        '')
            words='serve publish check keys synth collect healthcheck openapi completions man' flags='--listen --listen-tls --tls-certificate --tls-key --published --base-url --contact --workers --memory --state --key-prefix --signup --mailer --signup-daily --trusted-proxy --limit-anonymous --limit-free --limit-starter --limit-pro --quota-clients --shared-quota --shared-quota-password-file --shared-quota-ca-file --shared-quota-replicas --shared-quota-outage --shared-keys --connections --connections-per-address --connection-requests --connection-seconds --first-byte-seconds --head-seconds --idle-seconds --send-seconds --send-rate --drain-seconds --admin --access-log --print-config --help' again='--listen --listen-tls --trusted-proxy --shared-quota'
            case $before in
                --listen) kind=text ;;
                --listen-tls) kind=text ;;
                --tls-certificate) kind=file ;;
                --tls-key) kind=file ;;
                --published) kind=directory ;;
                --base-url) kind=text ;;
                --contact) kind=text ;;
                --workers) kind=text ;;
                --memory) kind=text ;;
                --state) kind=directory ;;
                --key-prefix) kind=text ;;
                --signup) kind=words words='ip email' ;;
                --mailer) kind=text ;;
                --signup-daily) kind=text ;;
                --trusted-proxy) kind=text ;;
                --limit-anonymous) kind=text ;;
                --limit-free) kind=text ;;
                --limit-starter) kind=text ;;
                --limit-pro) kind=text ;;
                --quota-clients) kind=text ;;
                --shared-quota) kind=text ;;
                --shared-quota-password-file) kind=file ;;
                --shared-quota-ca-file) kind=file ;;
                --shared-quota-replicas) kind=text ;;
                --shared-quota-outage) kind=words words='share refuse' ;;
                --connections) kind=text ;;
                --connections-per-address) kind=text ;;
                --connection-requests) kind=text ;;
                --connection-seconds) kind=text ;;
                --first-byte-seconds) kind=text ;;
                --head-seconds) kind=text ;;
                --idle-seconds) kind=text ;;
                --send-seconds) kind=text ;;
                --send-rate) kind=text ;;
                --drain-seconds) kind=text ;;
                --admin) kind=text ;;
                --access-log) kind=file ;;
            esac
            ;;
        'serve')
            words='' flags='--listen --listen-tls --tls-certificate --tls-key --published --base-url --contact --workers --memory --state --key-prefix --signup --mailer --signup-daily --trusted-proxy --limit-anonymous --limit-free --limit-starter --limit-pro --quota-clients --shared-quota --shared-quota-password-file --shared-quota-ca-file --shared-quota-replicas --shared-quota-outage --shared-keys --connections --connections-per-address --connection-requests --connection-seconds --first-byte-seconds --head-seconds --idle-seconds --send-seconds --send-rate --drain-seconds --admin --access-log --print-config --help' again='--listen --listen-tls --trusted-proxy --shared-quota'
            case $before in
                --listen) kind=text ;;
                --listen-tls) kind=text ;;
                --tls-certificate) kind=file ;;
                --tls-key) kind=file ;;
                --published) kind=directory ;;
                --base-url) kind=text ;;
                --contact) kind=text ;;
                --workers) kind=text ;;
                --memory) kind=text ;;
                --state) kind=directory ;;
                --key-prefix) kind=text ;;
                --signup) kind=words words='ip email' ;;
                --mailer) kind=text ;;
                --signup-daily) kind=text ;;
                --trusted-proxy) kind=text ;;
                --limit-anonymous) kind=text ;;
                --limit-free) kind=text ;;
                --limit-starter) kind=text ;;
                --limit-pro) kind=text ;;
                --quota-clients) kind=text ;;
                --shared-quota) kind=text ;;
                --shared-quota-password-file) kind=file ;;
                --shared-quota-ca-file) kind=file ;;
                --shared-quota-replicas) kind=text ;;
                --shared-quota-outage) kind=words words='share refuse' ;;
                --connections) kind=text ;;
                --connections-per-address) kind=text ;;
                --connection-requests) kind=text ;;
                --connection-seconds) kind=text ;;
                --first-byte-seconds) kind=text ;;
                --head-seconds) kind=text ;;
                --idle-seconds) kind=text ;;
                --send-seconds) kind=text ;;
                --send-rate) kind=text ;;
                --drain-seconds) kind=text ;;
                --admin) kind=text ;;
                --access-log) kind=file ;;
            esac
            ;;
        'publish')
            words='' flags='--dataset --to --generated-at --credit --force --full --strict --help' again=''
            case $before in
                --dataset) kind=directory ;;
                --to) kind=directory ;;
                --generated-at) kind=text ;;
                --credit) kind=text ;;
            esac
            ;;
        'check')
            words='' flags='--dataset --published --strict --help' again=''
            case $before in
                --dataset) kind=directory ;;
                --published) kind=directory ;;
            esac
            ;;
        'keys')
            words='issue list revoke restore' flags=' --help' again=''
            ;;
        'keys issue')
            words='' flags='--state --address --tier --key-prefix --help' again=''
            case $before in
                --state) kind=directory ;;
                --address) kind=text ;;
                --tier) kind=words words='free starter pro' ;;
                --key-prefix) kind=text ;;
            esac
            ;;
        'keys list')
            words='' flags='--state --json --help' again=''
            case $before in
                --state) kind=directory ;;
            esac
            ;;
        'keys revoke')
            words='' flags='--state --help' again=''
            case $before in
                --state) kind=directory ;;
            esac
            ;;
        'keys restore')
            words='' flags='--state --help' again=''
            case $before in
                --state) kind=directory ;;
            esac
            ;;
        'synth')
            words='' flags='--islands --creators --days --long-run-days --rows --until --seed --to --help' again=''
            case $before in
                --islands) kind=text ;;
                --creators) kind=text ;;
                --days) kind=text ;;
                --long-run-days) kind=text ;;
                --rows) kind=text ;;
                --until) kind=text ;;
                --seed) kind=text ;;
                --to) kind=directory ;;
            esac
            ;;
        'collect')
            words='' flags='--dataset --state --contact --upstream --rate --live --platform --codes --ca-file --once --plan --admin --help' again=''
            case $before in
                --dataset) kind=directory ;;
                --state) kind=directory ;;
                --contact) kind=text ;;
                --upstream) kind=text ;;
                --rate) kind=text ;;
                --live) kind=text ;;
                --platform) kind=text ;;
                --codes) kind=file ;;
                --ca-file) kind=file ;;
                --admin) kind=text ;;
            esac
            ;;
        'healthcheck')
            words='' flags='--admin --help' again=''
            case $before in
                --admin) kind=text ;;
            esac
            ;;
        'openapi')
            words='' flags='--base-url --help' again=''
            case $before in
                --base-url) kind=text ;;
            esac
            ;;
        'completions')
            words='bash zsh fish' flags=' --help' again=''
            ;;
        'man')
            words='' flags=' --help' again=''
            ;;
    esac
    case $kind in
        directory)
            compopt -o filenames 2>/dev/null
            while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen -d -- "$word")
            return ;;
        file)
            compopt -o filenames 2>/dev/null
            while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen -f -- "$word")
            return ;;
        text) return ;;
        words) flags= ;;
    esac
    local used=" ${COMP_WORDS[*]:0:COMP_CWORD} "
    for found in $words; do
        [[ $found == "$word"* ]] && COMPREPLY+=("$found")
    done
    [[ -n $words && $word != -* ]] && return
    for found in $flags; do
        [[ $used == *" $found "* && " $again " != *" $found "* ]] && continue
        [[ $found == "$word"* ]] && COMPREPLY+=("$found")
    done
}
complete -F _island_metrics island-metrics
