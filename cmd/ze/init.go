package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/store"
)

func (c *cli) initCommand() *cobra.Command {
	var file, name string
	var force bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create the database, an admin token (shown once) and a first configuration",
		Long: `Create the database, an admin token (shown once) and a first configuration.

Asks nothing. A database that exists is never touched, unless --force is given:
then it is kept aside, in the same directory, and the new one takes its place.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, _ := c.directory()
			text := []byte(appliance.InitialConfig)
			if file != "" {
				var err error
				if text, err = readFile(c.in, file); err != nil {
					return err
				}
			}
			log, err := c.offlineLogger()
			if err != nil {
				return err
			}
			made, err := initialize(cmd.Context(), initOptions{log: log, dir: dir, instance: name, file: file, text: text, force: force})
			if err != nil {
				return err
			}
			if made.aside != "" {
				fmt.Fprintln(c.err, "ze: the old database is kept as", made.aside)
			}
			if made.stale != "" {
				fmt.Fprintf(c.err, "ze: removed %s: its token was of the old database\n", made.stale)
			}
			fmt.Fprintf(c.err, "ze: created %s\nze: the admin token, shown only now:\n", filepath.Join(dir, store.FileName))
			_, err = fmt.Fprintln(c.out, made.token)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", `configuration file to begin with ("-" is standard input)`)
	f.StringVar(&name, "name", "", "name of this instance (default the host's name)")
	f.BoolVar(&force, "force", false, "keep an existing database aside and create a new one")
	return cmd
}

type initOptions struct {
	dir, instance string
	file          string // name of the configuration in messages
	text          []byte
	force         bool
	// tokenFile leaves the token in its file, for want of somebody to show it to.
	tokenFile bool
	log       zerolog.Logger
}

type initResult struct {
	token string
	aside string // where an existing database was put
	stale string // file with a token of that one, which is removed
}

// initialize creates the database in o.dir with an admin token and a first
// configuration. Everything that can be refused is refused before anything is
// written. One that was left half made by an interrupted attempt is completed.
func initialize(ctx context.Context, o initOptions) (res initResult, err error) {
	if o.file == "" {
		o.file = "initial configuration"
	}
	if o.instance == "" {
		if o.instance, err = os.Hostname(); err != nil {
			return res, fmt.Errorf("find the host's name: %w; give one with --name", err)
		}
	}
	// The token made below is the one that the start gate wants to see.
	if _, err := appliance.LoadConfiguration(o.file, o.text, appliance.Overrides{}, 1); err != nil {
		return res, err
	}
	so := store.Options{Dir: o.dir, Instance: o.instance, Logger: o.log}
	if o.force {
		if res.aside, err = store.SetAside(so); err != nil {
			return res, err
		}
	}
	if err := store.Create(so); err != nil && !errors.Is(err, store.ErrExists) {
		return res, err
	}
	db, err := store.Open(so)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.LatestRevision(ctx); err == nil {
		return res, fmt.Errorf("%s exists already; to begin anew and keep it aside: ze init --force", filepath.Join(o.dir, store.FileName))
	} else if !errors.Is(err, config.ErrNoRevision) {
		return res, err
	}
	now := time.Now().Truncate(time.Second)
	secret, token := access.NewToken(rand.Reader, "admin", access.Admin, now, time.Time{})
	if o.tokenFile {
		// Before the token counts: it must not be lost with an interrupted attempt.
		path, _ := appliance.TokenFile(o.dir)
		if err := replaceFile(path, []byte(secret+"\n"), 0o600); err != nil {
			return res, err
		}
	}
	if _, err := db.DeleteToken(ctx, token.Name); err != nil && !errors.Is(err, access.ErrNoToken) {
		return res, err
	}
	if err := db.CreateToken(ctx, token); err != nil {
		return res, err
	}
	if path, removed, err := appliance.RemoveStaleTokenFile(ctx, o.dir, db); err != nil {
		return res, err
	} else if removed {
		res.stale = path
	}
	// The configuration comes last: its presence says that all is there.
	_, err = appliance.Import(ctx, db, o.text, localUser(), "first configuration")
	res.token = secret
	return res, err
}

// localUser names who runs this program, for the configuration's history.
func localUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}
